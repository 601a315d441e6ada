// What is live at a step, or everything: the table that says why the peak is what it is.

class Tensors {
  constructor(model, choose) {
    Object.assign(this, { model, step: model.fullest, everything: false, chosen: -1 });
    this.held = new Map();
    const columns = [
      { title: "Tensor", name: true, value: (row) => model.name[row], cell: (row) => bufferLink(model, row, choose) },
      { title: "Size", number: true, value: (row) => model.size[row], text: (row) => formatBytes(model.size[row]) },
      {
        title: "Of the step", number: true, value: (row) => this.held.get(row) ?? 0,
        text: (row) => this.shareText(row),
      },
      model.placed && {
        title: "Address", number: true, value: (row) => model.offset[row], text: (row) => formatCount(model.offset[row]),
      },
      { title: "From step", number: true, value: (row) => model.lower[row], text: (row) => formatCount(model.lower[row]) },
      { title: "To step", number: true, value: (row) => model.upper[row] - 1, text: (row) => formatCount(model.upper[row] - 1) },
      model.starts && model.plan.order.length && { title: "First op", name: true, value: (row) => model.opAt(model.lower[row]), text: (row) => lifespanOp(model, model.lower[row]) ?? "–" },
      model.starts && model.plan.order.length && { title: "Last op", name: true, value: (row) => lastOp(model, row), text: (row) => lastOp(model, row) ?? "–" },
      { title: "Kind", value: (row) => this.kind(row), text: (row) => this.kind(row) },
      model.plan.pools.length > 1 && { title: "Pool", value: (row) => this.poolName(row), text: (row) => printable(this.poolName(row)) },
      model.symbols && { title: "Formula", name: true, value: (row) => model.symbols.size[row] ?? "", text: (row) => printable(model.symbols.size[row] ?? "") },
    ].filter(Boolean);
    this.table = new Table(byId("tensors"), columns, { sortBy: 1, descending: true, caption: "Tensors" });
    this.table.isChosen = (row) => row === this.chosen;
    byId("list-step").addEventListener("click", () => this.list(false));
    byId("list-all").addEventListener("click", () => this.list(true));
    this.list(false);
  }

  shareText(row) {
    if (!this.held.has(row)) return "–";
    const own = this.held.get(row);
    return own === 0 ? "shared" : formatShare(own / Math.max(1, this.model.liveAt(this.step)));
  }

  kind(row) {
    return ROLES[this.model.role[row]] + (this.model.again[row] ? ", again" : "");
  }

  poolName(row) {
    return this.model.plan.pools[this.model.pool[row]].name;
  }

  list(everything) {
    this.everything = everything;
    byId("list-step").setAttribute("aria-pressed", String(!everything));
    byId("list-all").setAttribute("aria-pressed", String(everything));
    this.held = this.model.heldAt(this.step);
    byId("tensors-note").textContent = this.note();
    this.table.show(everything ? [...this.model.name.keys()] : [...this.held.keys()].sort((a, b) => a - b));
  }

  lookAt(step) {
    this.step = step;
    this.list(false);
  }

  mark(row) {
    this.chosen = row;
    this.table.mark();
  }

  note() {
    const { model, step } = this;
    const { plan } = model;
    if (model.count === 0) return "There is nothing to place.";
    const live = model.liveAt(step);
    const at = `At ${model.stepText(step)}, ${plural(this.held.size, "buffer")} hold ${formatBytes(live)}`;
    if (step !== model.fullest) return `${at}. The fullest step is ${formatCount(model.fullest)}.`;
    if (plan.pools.length > 1 || plan.peak === null) return `${at}: no step holds more.`;
    if (live === plan.peak) return `${at}: no step holds more, and the peak is no higher. Whoever wants it smaller must make one of these smaller, end sooner, begin later, or lie over another.`;
    return `${at}: no step holds more. The peak is ${formatBytes(plan.peak - live)} higher: holes between tensors, alignment, or fixed offsets.`;
  }
}
