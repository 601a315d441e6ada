// Many models under several settings: who needs how much, and where it failed.

// Colours of Okabe and Ito, and dashes for those who cannot tell them apart.
const SERIES = ["curve", "peak", "good", "capacity", "fair", "bound", "again", "soft"];
const SERIES_DASHES = [[], [8, 3], [2, 3], [10, 3, 2, 3], [5, 5]];

function statusCell(status) {
  const known = ["optimal", "feasible", "infeasible", "unknown"];
  const shown = status ?? "unknown";
  return make("span", { class: `status ${known.includes(shown) ? shown : "error"}` }, printable(shown));
}

function formatRatio(value) {
  return value === null || value === undefined ? "–" : value.toFixed(4);
}

const ratioColumn = (title, value) => ({ title, number: true, value, text: (row) => formatRatio(value(row)) });
const countColumn = (title, value) => ({ title, number: true, value, text: (row) => formatCount(value(row)) });
const nameColumn = (title, value) => ({ title, name: true, value, text: (row) => printable(value(row) ?? "") });

function showHead({ title, models, rows, settings, cpplan }) {
  byId("name").textContent = printable(title);
  const failed = rows.filter(({ bytes }) => bytes === null).length;
  byId("verdict").textContent = `${plural(models, "model")} under ${plural(settings.length, "setting")}: `
    + `${plural(rows.length - failed, "plan")}${failed ? `, and ${plural(failed, "row")} without one` : ""}.`;
  const facts = [
    ["Rows", formatCount(rows.length)],
    ["Plans", formatCount(rows.length - failed)],
    ["Proved optimal", formatCount(rows.filter(({ status }) => status === "optimal").length)],
    ["Without a plan", formatCount(failed)],
    timed(rows) && ["Planning in all", formatSeconds(rows.reduce((sum, { seconds }) => sum + (seconds ?? 0), 0))],
  ].filter(Boolean);
  byId("facts").append(...facts.map(([term, value]) => make("div", {}, make("dt", {}, term), make("dd", {}, value))));
  byId("made-by").textContent = `Made by cpplan ${cpplan}.`;
}

// Tables that were not made by a batch may not say how long planning took.
function timed(rows) {
  return rows.some(({ seconds }) => seconds !== null);
}

function showSettings({ rows, settings, common, models, baselines, duels }) {
  byId("settings-note").textContent = "Means are geometric, over the models that all settings have planned, "
    + `${formatCount(common)} of ${formatCount(models)}: bytes over the best of any setting, over the lower bound, and over what each baseline needs.`;
  new Table(byId("settings"), [
    nameColumn("Setting", (row) => row.setting),
    countColumn("Planned", (row) => row.planned),
    countColumn("Optimal", (row) => row.optimal),
    ratioColumn("Over best", (row) => row.to_best),
    ratioColumn("Over bound", (row) => row.to_bound),
    ...baselines.map((name) => ratioColumn(`Over ${printable(name, 40)}`, (row) => row.to_baseline[name])),
    timed(rows) && { title: "Planning", number: true, value: (row) => row.seconds, text: (row) => formatSeconds(row.seconds) },
  ].filter(Boolean), { sortBy: 3, caption: "Settings" }).show(settings);
  if (duels.length === 0) return;
  byId("duels-section").hidden = false;
  new Table(byId("duels"), [
    nameColumn("Setting", (row) => row.setting),
    nameColumn("Against", (row) => row.other),
    countColumn("Fewer", (row) => row.wins),
    countColumn("As many", (row) => row.ties),
    countColumn("More", (row) => row.losses),
  ], { sortBy: 2, descending: true, caption: "Wins, ties and losses" }).show(duels);
}

function drawProfile({ settings, factors }) {
  const series = settings.map(({ setting, profile }, k) => ({
    name: printable(setting, 40),
    colour: colours[SERIES[k % SERIES.length]],
    dash: SERIES_DASHES[k % SERIES_DASHES.length],
    points: factors.map((factor, at) => [factor, profile[at]]),
  }));
  drawLineChart(byId("profile"), {
    series,
    x: { low: 1, high: factors[factors.length - 1], format: (value) => `${Number(value.toPrecision(4))}`, title: "bytes over the best of any setting" },
    y: { low: 0, high: 1.02, format: (value) => `${Math.round(100 * value)}\u202f%` },
  });
}

function showResults({ rows, baselines }) {
  const table = new Table(byId("results"), [
    nameColumn("Model", (row) => row.model),
    nameColumn("Setting", (row) => row.setting),
    { title: "Status", value: (row) => row.status, cell: (row) => statusCell(row.status) },
    { title: "Bytes", number: true, value: (row) => row.bytes, text: (row) => (row.bytes === null ? "–" : formatBytes(row.bytes)) },
    { title: "Lower bound", number: true, value: (row) => row.bound, text: (row) => (row.bound === null ? "–" : formatBytes(row.bound)) },
    { title: "Gap", number: true, value: (row) => row.gap, text: (row) => (row.gap === null ? "–" : formatShare(row.gap)) },
    ...baselines.map((name) => ratioColumn(`Over ${printable(name, 40)}`, (row) => row[`ratio_${name}`])),
    { title: "Planning", number: true, value: (row) => row.seconds, text: (row) => (row.seconds === null ? "–" : formatSeconds(row.seconds)) },
    rows.some(({ error }) => error) && { title: "Why there is none", value: (row) => row.error, cell: (row) => make("div", { class: "name" }, printable(row.error ?? "", 300)), error: true },
  ].filter(Boolean), { caption: "Results" });
  const keys = rows.map(({ model, setting, status }) => printable(`${model} ${setting} ${status}`, Infinity).toLowerCase());
  const find = () => {
    const wanted = byId("filter").value.trim().toLowerCase();
    const shown = rows.filter((_, k) => keys[k].includes(wanted));
    byId("results-note").textContent = `${formatCount(shown.length)} of ${plural(rows.length, "row")}`;
    table.show(shown);
  };
  byId("filter").addEventListener("input", find);
  find();
}

function start() {
  const data = JSON.parse(byId("data").textContent);
  const { columns } = data;
  const count = columns.model.length;
  data.rows = Array.from({ length: count }, (_, k) => (
    Object.fromEntries(Object.keys(columns).map((name) => [name, columns[name][k]]))
  ));
  showHead(data);
  showSettings(data);
  showResults(data);
  offerRows(data, "batch", data.rows);
  const described = data.settings.map(({ setting, profile }) => `${printable(setting)}: best on ${formatShare(profile[0])}`);
  byId("profile").setAttribute("aria-label", `Performance profile. ${described.join("; ")}`);
  keepDrawn(byId("profile"), () => drawProfile(data));
  document.documentElement.dataset.ready = "yes";
}

start();
