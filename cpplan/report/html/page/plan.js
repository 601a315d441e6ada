// Puts the page together.

function start() {
  const model = new Model(JSON.parse(byId("data").textContent));
  const heights = model.panels.map(({ peak, capacity }) => 1.04 * Math.max(1, peak, near(capacity, peak)));
  const view = new View(model.steps, heights);
  const card = new Card(model, byId("card"));
  const live = new LiveChart(model, view, byId("live"));
  const maps = model.panels.map((panel) => new ArenaMap(model, view, panel, mapCanvas(model, panel)));
  const drawings = [showLegend(model)];
  let chosen = null;

  // What is chosen from a list may be out of sight, or too small for it.
  const choose = (row, { listed = true } = {}) => {
    chosen = row < 0 ? null : choiceOf(model, row);
    for (const map of maps) map.chosen = chosen;
    if (chosen === null) {
      selection.clear();
    } else {
      selection.show(chosen);
      revealBuffer(model, view, row, listed);
    }
    tensors.mark(row);
    announce(model, row);
    view.changed();
  };
  const lookAt = (step) => {
    live.step = clamp(step, 0, Math.max(0, model.steps - 1));
    tensors.lookAt(live.step);
    view.reveal(live.step, live.step + 1, 0, 0, null);
  };
  const next = (by) => {
    const { byTime } = model;
    if (byTime.length === 0) return;
    const place = chosen === null ? (by > 0 ? -1 : byTime.length) : byTime.indexOf(chosen.row);
    choose(byTime[clamp(place + by, 0, byTime.length - 1)]);
  };
  const keys = {
    n: () => next(1),
    b: () => next(-1),
    p: () => lookAt(model.fullest),
    Escape: () => choose(-1),
  };

  const selection = new Selection(model, byId("selection"), choose);
  const tensors = new Tensors(model, choose);
  new Search(model, byId("search"), byId("found"), choose);
  for (const map of maps) {
    const number = map.panel.number;
    const at = ({ x, y, frame }) => map.panel.spans.at(Math.floor(frame.step(x)), frame.bytes(y));
    listen(map, number, {
      hover: (point) => card.showBuffer(at(point), point.event),
      leave: () => card.hide(),
      choose: (point) => choose(at(point), { listed: false }),
      key: keys,
    });
  }
  const stepAt = ({ x, frame }) => clamp(Math.floor(frame.step(x)), 0, Math.max(0, model.steps - 1));
  listen(live, null, {
    hover: (point) => card.showStep(stepAt(point), point.event),
    leave: () => card.hide(),
    choose: (point) => lookAt(stepAt(point)),
    key: { ...keys, ArrowLeft: () => lookAt(live.step - 1), ArrowRight: () => lookAt(live.step + 1) },
  });
  const middle = (factor) => {
    view.zoom(factor, 0.5, 0.5, null);
    heights.forEach((_, panel) => view.zoom(factor, 0.5, 0.5, panel, { steps: false }));
  };
  byId("zoom-in").addEventListener("click", () => middle(ZOOM_STEP ** 2));
  byId("zoom-out").addEventListener("click", () => middle(ZOOM_STEP ** -2));
  byId("zoom-all").addEventListener("click", () => view.showAll());
  byId("zoom-peak").addEventListener("click", () => lookAt(model.fullest));

  showSummary(model);
  drawings.push(showCascades(model), showOrder(model), showHistory(model));
  showSymbols(model);
  showRules(model);
  offerDownloads(model);
  describe(model, maps);

  // Moves between two pictures of the screen are drawn once.
  let waiting = false;
  const drawMoving = () => {
    waiting = false;
    for (const map of maps) map.draw();
    live.draw();
    byId("seen").textContent = view.text;
  };
  const drawAll = () => {
    fitMargin();
    drawMoving();
    for (const draw of drawings) draw();
  };
  view.changed = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(drawMoving);
  };
  keepDrawn(byId("map-section"), drawAll);
  document.documentElement.dataset.ready = "yes";
}

// A capacity far above the peak would leave nothing to see of the rest.
function near(capacity, peak) {
  return capacity !== null && capacity <= 2 * peak ? capacity : 0;
}

function choiceOf(model, row) {
  if (!model.placed) return { row, rests: { rows: [], spare: 0 }, support: new Set(), sharers: [] };
  return { row, rests: restsOn(model, row), support: support(model, row), sharers: sharersOf(model, row) };
}

function revealBuffer(model, view, row, closer) {
  const { lower, upper, offset, size, pool, placed } = model;
  const place = placed ? [offset[row], offset[row] + size[row], pool[row]] : [0, 0, null];
  if (closer) {
    view.approach(lower[row], upper[row], ...place);
    byId("maps").scrollIntoView({ block: "nearest" });
  } else {
    view.reveal(lower[row], upper[row], ...place);
  }
}

function mapCanvas(model, panel) {
  const canvas = make("canvas", { class: "map", tabindex: "0", role: "application", "aria-describedby": "map-help" });
  const figure = make("figure", { class: "panel" });
  if (model.panels.length > 1) {
    const of = panel.capacity === null ? "" : ` of ${formatBytes(panel.capacity)}`;
    figure.append(make("figcaption", {}, printable(panel.name), make("span", { class: "note" }, `${formatBytes(panel.peak)}${of}`)));
    byId("maps").classList.add("several");
  }
  figure.append(canvas);
  if (panel.spans.count === 0) {
    canvas.hidden = true;
    figure.append(make("p", { class: "note" }, "Nothing lies in this pool."));
  }
  byId("maps").append(figure);
  return canvas;
}

function describe(model, maps) {
  const { plan } = model;
  maps.forEach(({ canvas, panel }) => canvas.setAttribute(
    "aria-label",
    `Map of pool ${printable(panel.name)}: ${plural(panel.first.size, "buffer")} over ${plural(model.steps, "step")}, ${formatBytes(panel.peak)} at most`,
  ));
  byId("live").setAttribute("aria-label", `Live bytes over the steps: at most ${formatBytes(model.liveAt(model.fullest))}, at step ${model.fullest}`);
  const again = model.stepsAgain().length;
  byId("live-note").textContent = `at most ${formatBytes(model.liveAt(model.fullest))}, at ${model.stepText(model.fullest)}`
    + `${plan.pools.length > 1 ? ", over all pools" : ""}${again ? `; ▲ ${again === 1 ? "an op runs" : `${formatCount(again)} ops run`} again` : ""}`;
  if (!model.placed) {
    byId("maps").append(make("p", { class: "message" }, "There is no map: the plan holds no offsets."));
    byId("map-help").hidden = true;
    byId("legend").hidden = true;
  }
}

function announce(model, row) {
  byId("announcement").textContent = row < 0
    ? "Nothing selected"
    : `${printable(model.name[row])}, ${formatBytes(model.size[row])}, steps ${model.lower[row]} to ${model.upper[row] - 1}`
      + (model.placed ? `, address ${model.offset[row]}` : "");
}

start();
