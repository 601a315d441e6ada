// Plans within different limits: bytes against work, and how far below them any plan may lie.

const UNITS = {
  share: { text: formatShare, cell: (value) => `${(100 * value).toFixed(2)}\u202f%` },
  bytes: { text: formatBytes, cell: formatBytes },
  cycles: { text: formatNumber, cell: formatNumber },
};

function showHead({ title, points, what, cpplan }) {
  byId("name").textContent = printable(title);
  const found = points.filter(({ y }) => y !== null);
  const proved = points.filter(({ status }) => status === "optimal").length;
  byId("verdict").textContent = `${plural(found.length, "plan")} at ${plural(points.length, "limit")}, ${formatCount(proved)} proved best.`;
  const least = Math.min(...found.map(({ x }) => x));
  const facts = [
    [`Least ${what.x}`, found.length ? formatBytes(least) : "none"],
    ["Proved", `${formatCount(proved)} of ${formatCount(points.length)}`],
    ["Nothing fits", formatCount(points.filter(({ status }) => status === "infeasible").length)],
  ];
  byId("facts").append(...facts.map(([term, value]) => make("div", {}, make("dt", {}, term), make("dd", {}, value))));
  byId("curve-note").textContent = `No plan lies below the dashed line: ${what.y} at least needed within so many bytes. `
    + "What is between the lines is open.";
  byId("made-by").textContent = `Made by cpplan ${cpplan}.`;
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}

function steps(points) {
  return points.filter(([x, y]) => x !== null && y !== null).sort(([x, y], [otherX, otherY]) => x - otherX || otherY - y);
}

function drawCurve({ points, bounds, what }) {
  const found = steps(points.map(({ x, y }) => [x, y]));
  const least = steps(bounds);
  const all = [...found, ...least];
  if (all.length === 0) return;
  const high = Math.max(...all.map(([x]) => x));
  const low = Math.min(...all.map(([x]) => x));
  const room = Math.max(1, 0.04 * (high - low));
  // A plan also fits wherever there are more bytes; so does a bound wherever there are fewer.
  const ends = (of) => (of.length ? [...of, [high + room, of[of.length - 1][1]]] : of);
  // Each step goes on to the bytes of its bound, since the next bound holds beyond them.
  const back = least.length ? [[low - room, least[0][1]], ...least.map(([x], k) => [x, least[Math.min(k + 1, least.length - 1)][1]])] : least;
  const top = Math.max(...all.map(([, y]) => y));
  drawLineChart(byId("curve"), {
    series: [
      { name: "best plans found", colour: colours.curve, points: ends(found) },
      { name: "at least", colour: colours.bound, dash: [5, 4], points: back },
    ],
    x: { low: low - room, high: high + room, format: byteFormat([low - room, high + room]), title: what.x },
    y: { low: 0, high: top > 0 ? 1.06 * top : 1, inBytes: what.unit === "bytes", format: UNITS[what.unit].text },
  });
}

function showPoints({ points, what }) {
  const cell = (value) => (value === null ? "–" : UNITS[what.unit].cell(value));
  const bytes = (value) => (value === null ? "–" : formatBytes(value));
  byId("points-note").textContent = "Sorted by limit; a point without a plan says whether that is proved.";
  new Table(byId("points"), [
    { title: "Limit", number: true, value: (row) => row.limit, text: (row) => (row.limit !== null && row.limit < 1024 ? String(row.limit) : bytes(row.limit)) },
    what.unit === "share" && { title: capital(what.x), number: true, value: (row) => row.x, text: (row) => bytes(row.x) },
    what.unit === "share" && { title: "at least", number: true, value: (row) => row.least, text: (row) => bytes(row.least) },
    { title: capital(what.y), number: true, value: (row) => row.y, text: (row) => cell(row.y) },
    { title: "at least", number: true, value: (row) => row.bound, text: (row) => cell(row.bound) },
    { title: "Status", value: (row) => row.status, text: (row) => row.status },
    points.some(({ message }) => message) && { title: "Note", value: (row) => row.message, cell: (row) => make("div", { class: "name" }, printable(row.message ?? "", 300)), error: true },
  ].filter(Boolean), { caption: "Points" }).show(points);
}

function start() {
  const data = JSON.parse(byId("data").textContent);
  showHead(data);
  showPoints(data);
  offerRows(data, "curve", data.points);
  const described = data.points.filter(({ y }) => y !== null).map(({ x, y }) => `${formatBytes(x)}: ${UNITS[data.what.unit].cell(y)}`);
  byId("curve").setAttribute("aria-label", `${data.what.y} against ${data.what.x}. ${described.join("; ")}`);
  keepDrawn(byId("curve"), () => drawCurve(data));
  document.documentElement.dataset.ready = "yes";
}

start();
