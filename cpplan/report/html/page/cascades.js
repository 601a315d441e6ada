// Ops in pieces: a picture of each cascade, a lane an op, and what each op keeps.

const LANE = 26;
const LANE_LABEL = 190;
const LANE_SCALE = 10000;

function showCascades(model) {
  const groups = model.data.cascades;
  if (!groups || groups.length === 0) return () => {};
  byId("cascade-section").hidden = false;
  const lanes = groups.flat();
  const again = lanes.reduce((sum, lane) => sum + lane.again, 0);
  byId("cascade-note").textContent = `${plural(lanes.length, "op")} in pieces, ${plural(groups.length, "cascade")}. `
    + "Each lane is an op, from the first part of what it writes (top) to the last. Dark: a piece runs; "
    + "light: what it wrote is still needed, halos among it"
    + (again ? `; pink and hatched: it runs again, ${plural(again, "time")} in all.` : ". No piece runs again.");
  const canvases = groups.map((group, k) => {
    const [first, end] = spanOf(group);
    const from = `${printable(group[0].op, 60)}${group.length > 1 ? ` to ${printable(group[group.length - 1].op, 60)}` : ""}`;
    const text = `Cascade ${k + 1}: ${from}, ${plural(group.length, "op")}, positions ${formatCount(first)} to ${formatCount(end - 1)} of the order`;
    const canvas = make("canvas", { class: "cascade", role: "img", "aria-label": text });
    canvas.style.height = `${group.length * LANE + 40}px`;
    byId("cascade-charts").append(make("figure", { class: "panel" }, make("figcaption", {}, text), canvas));
    return canvas;
  });
  const cascadeOf = new Map(groups.flatMap((group, k) => group.map((lane) => [lane, k + 1])));
  new Table(byId("cascades"), [
    { title: "First at", number: true, value: (lane) => lane.runs[0][0], text: (lane) => formatCount(lane.runs[0][0]) },
    { title: "Cascade", number: true, value: (lane) => cascadeOf.get(lane), text: (lane) => formatCount(cascadeOf.get(lane)) },
    { title: "Op", name: true, value: (lane) => lane.op, text: (lane) => printable(lane.op) },
    { title: "Kind", name: true, value: (lane) => lane.kind, text: (lane) => printable(lane.kind) },
    { title: "Parts along", name: true, value: (lane) => axesText(lane), text: axesText },
    { title: "Pieces", number: true, value: (lane) => lane.pieces, text: (lane) => formatCount(lane.pieces) },
    again && { title: "Run again", number: true, value: (lane) => lane.again, text: (lane) => (lane.again ? `↻ ${formatCount(lane.again)}` : "–") },
    { title: "Kept at most", number: true, value: (lane) => lane.kept, text: (lane) => formatBytes(lane.kept) },
    { title: "Whole", number: true, value: (lane) => lane.whole, text: (lane) => formatBytes(lane.whole) },
  ].filter(Boolean), { caption: "Ops in pieces, by their first runs" }).show(lanes);
  return () => canvases.forEach((canvas, k) => drawCascade(canvas, groups[k]));
}

function axesText(lane) {
  return lane.axes.map(([name, parts]) => `${printable(name)}: ${formatCount(parts)}`).join(", ");
}

// First position of a cascade's runs in the order, and the one after the last.
function spanOf(group) {
  const last = group.reduce((most, { runs }) => Math.max(most, runs[runs.length - 1][0]), 0);
  return [group[0].runs[0][0], last + 1];
}

function drawCascade(canvas, group) {
  const sharp = sharpen(canvas);
  if (sharp === null) return;
  const { pen, width, height } = sharp;
  const [first, end] = spanOf(group);
  const left = Math.min(LANE_LABEL, width / 3);
  const right = width - 12;
  const across = (step) => left + ((Math.min(step, end) - first) / (end - first)) * (right - left);
  group.forEach((lane, k) => {
    const [top, room] = [k * LANE + 2, LANE - 4];
    const box = (from, to, begin, stop, least = 1) => {
      const [x, y] = [across(from), top + (begin / LANE_SCALE) * room];
      const size = [Math.max(least, across(to) - x), Math.max(least, ((stop - begin) / LANE_SCALE) * room)];
      pen.fillRect(x, y, ...size);
      return [x, y, ...size];
    };
    pen.fillStyle = colours.map;
    pen.fillRect(left, top, right - left, room);
    pen.fillStyle = colours["tint-1"];
    for (const [from, to, begin, stop] of lane.bands) box(from, to + 1, begin, stop);
    pen.fillStyle = colours.curve;
    for (const [at, begin, stop, again] of lane.runs) if (!again) box(at, at + 1, begin, stop);
    pen.fillStyle = colours.again;
    for (const [at, begin, stop, again] of lane.runs) if (again) hatch(pen, ...box(at, at + 1, begin, stop, 3));
    pen.fillStyle = colours.soft;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    pen.fillText(printable(lane.op, 28), left - 7, top + room / 2, left - 8);
  });
  pen.fillStyle = colours.soft;
  pen.strokeStyle = colours.grid;
  pen.textBaseline = "top";
  pen.textAlign = "center";
  const bottom = height - 36;
  for (const value of ticks(first, end, (right - left) / 110, false, true)) {
    const at = Math.round(across(value)) + 0.5;
    line(pen, at, bottom, at, bottom + 4);
    pen.fillText(formatCount(value), at, bottom + 6);
  }
  pen.fillText("position in the order", (left + right) / 2, bottom + 20);
}
