// What the search found when: the best peak and the best bound.

function showHistory({ plan }) {
  const history = (plan.history || []).map(([seconds, peak, bound, source]) => ({ seconds, peak, bound, source }));
  if (history.length === 0) return () => {};
  byId("history-section").hidden = false;
  const found = history.filter(({ peak }) => peak !== null);
  const told = ({ seconds, peak }) => `${formatBytes(peak)} after ${formatSeconds(seconds)}`;
  byId("history-note").textContent = found.length === 0 ? "Each line says what the objective was."
    : found.length === 1 ? `${told(found[0])}.` : `From ${told(found[0])} to ${told(found[found.length - 1])}.`;
  const gap = ({ peak, bound }) => (peak === null || bound === null ? null : peak === 0 ? 0 : (peak - bound) / peak);
  const known = (value) => history.some((event) => value(event) !== null);
  new Table(byId("history"), [
    { title: "After", number: true, value: (row) => row.seconds, text: (row) => formatSeconds(row.seconds) },
    known(({ peak }) => peak) && { title: "Peak", number: true, value: (row) => row.peak, text: (row) => formatBytes(row.peak) },
    known(({ bound }) => bound) && { title: "Lower bound", number: true, value: (row) => row.bound, text: (row) => formatBytes(row.bound) },
    known(gap) && { title: "Gap", number: true, value: gap, text: (row) => (gap(row) === null ? "unknown" : formatShare(gap(row))) },
    { title: "By", name: true, value: (row) => row.source, text: (row) => printable(row.source) },
  ].filter(Boolean), { caption: "Improvements in time" }).show(history);
  // One plan is no curve, and with several pools it is not one number that improves.
  if (history.length < 2 || !known(({ peak, bound }) => peak ?? bound)) return () => {};
  const canvas = byId("history-chart");
  canvas.hidden = false;
  canvas.setAttribute("aria-label", `Best peak and best bound over time. ${byId("history-note").textContent}`);
  return () => drawHistory(canvas, history, plan.runtime);
}

function drawHistory(canvas, history, runtime) {
  const values = history.flatMap(({ peak, bound }) => [peak, bound]).filter((value) => value !== null);
  const end = Math.max(runtime || 0, history[history.length - 1].seconds, 2e-3);
  const first = Math.max(1e-4, history[0].seconds);
  // Within one power of ten an even axis tells more.
  const log = end > 10 * first;
  const begin = log ? first : Math.max(0, Math.min(first, 0.98 * end) - 0.05 * (end - first));
  // The first plans are often many times the last: the picture is of what the search was about.
  const [least, last] = [Math.min(...values), Math.min(...history.map(({ peak }) => peak ?? Infinity))];
  const most = Math.min(Math.max(...values), 1.6 * last);
  const room = Math.max(1, 0.08 * (most - least), 0.02 * most);
  const points = (key) => {
    const known = history.filter((event) => event[key] !== null);
    const last = known[known.length - 1];
    return [...known, ...(last ? [{ ...last, seconds: end }] : [])].map((event) => [Math.max(begin, event.seconds), event[key]]);
  };
  drawLineChart(canvas, {
    series: [
      { name: "best peak", colour: colours.peak, points: points("peak") },
      { name: "best lower bound", colour: colours.bound, dash: [2, 3], points: points("bound") },
    ],
    x: { low: begin, high: end, log, format: (value) => String(Number(value.toPrecision(6))), title: "seconds" },
    y: { low: Math.max(0, least - room), high: most + room, inBytes: true },
  });
}
