// The order before and after, and what runs again.

function showOrder(model) {
  const { plan, given } = model;
  if (plan.order.length === 0) return () => {};
  byId("order-section").hidden = false;
  const runs = new Map();
  plan.order.forEach((op) => runs.set(op, (runs.get(op) || 0) + 1));
  const rank = Boolean(given);
  // Where nothing moved, the places before would say nothing.
  const moved = rank && plan.order.some((op, k) => given.place[k] !== k);
  const seen = new Map();
  const rows = plan.order.map((op, k) => {
    const run = (seen.get(op) || 0) + 1;
    seen.set(op, run);
    const live = model.starts ? mostIn(model, k) : null;
    return { op, k, run, of: runs.get(op), before: rank ? given.place[k] : null, live };
  });
  byId("order-note").textContent = orderNote(model, rows);
  new Table(byId("order"), [
    { title: "Position", number: true, value: (row) => row.k, text: (row) => formatCount(row.k) },
    { title: "Op", name: true, value: (row) => row.op, text: (row) => printable(row.op) },
    moved && { title: "Before", number: true, value: (row) => row.before, text: (row) => formatCount(row.before) },
    moved && { title: "Moved", number: true, value: (row) => (row.run > 1 ? null : row.k - row.before), text: (row) => movedText(row) },
    runs.size < plan.order.length && { title: "Run", value: (row) => row.run, text: (row) => (row.of > 1 ? `↻ ${row.run} of ${row.of}` : "") },
    model.starts && { title: "Live bytes", number: true, value: (row) => row.live, text: (row) => formatBytes(row.live) },
  ].filter(Boolean), { caption: "Ops in the order they run" }).show(rows);
  if (!given || (!moved && plan.relations.length === 0)) return () => {};
  const canvas = byId("order-chart");
  canvas.hidden = false;
  canvas.setAttribute("aria-label", byId("order-note").textContent);
  return () => {
    const most = Math.max(...[given.live, model.profile.live].map((live) => live.reduce((a, b) => Math.max(a, b), 1)));
    const last = Math.max(given.times[given.times.length - 1] ?? 1, model.steps);
    drawLineChart(canvas, {
      series: [
        { name: "live bytes in the given order, nothing shared by choice", colour: colours.soft, dash: [5, 3], points: given.times.map((time, k) => [time, given.live[k]]) },
        { name: "in the plan", colour: colours.curve, points: Array.from(model.profile.times, (time, k) => [time, model.profile.live[k]]) },
      ],
      x: { low: 0, high: last, format: formatCount, title: "step", whole: true },
      y: { low: 0, high: 1.05 * most, inBytes: true },
    });
  };
}

function movedText({ k, before, run }) {
  if (run > 1) return "again";
  const moved = k - before;
  return moved === 0 ? "–" : moved > 0 ? `${formatCount(moved)} later` : `${formatCount(-moved)} sooner`;
}

function mostIn(model, k) {
  const { profile, starts } = model;
  let most = model.liveAt(starts[k]);
  for (let at = lastAtMost(profile.times, starts[k]) + 1; at < profile.times.length && profile.times[at] < starts[k + 1]; at += 1) {
    most = Math.max(most, profile.live[at]);
  }
  return most;
}

function orderNote(model, rows) {
  const { plan, given } = model;
  const again = rows.filter(({ run }) => run > 1).length;
  const parts = [`${plural(rows.length, "op")} run`];
  if (again) parts.push(`${formatCount(again)} of them again`);
  let text = parts.join(", ");
  if (again && plan.base_cost) text += `, at ${formatShare(plan.cost / plan.base_cost - 1)} more cost`;
  if (!given) return `${text}. The model was not at hand: its own order is not compared.`;
  const first = rows.filter(({ run }) => run === 1);
  const same = first.every(({ before }, k) => k === 0 || first[k - 1].before < before);
  const live = (values) => formatBytes(values.reduce((a, b) => Math.max(a, b), 0));
  text += !same ? ", in an order of the plan's own." : again ? ", otherwise in the order the model gives." : " in the order the model gives.";
  if (same && !again && plan.relations.length === 0) return text;
  return `${text} At most ${live(given.live)} were live before, ${live(model.profile.live)} after.`;
}
