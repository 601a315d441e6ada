// What lies under the pointer, next to it.

class Card {
  constructor(model, element) {
    Object.assign(this, { model, element, row: -1 });
  }

  hide() {
    this.row = -1;
    this.element.hidden = true;
  }

  showBuffer(row, event) {
    if (row < 0) {
      this.hide();
      return;
    }
    if (row !== this.row) {
      this.row = row;
      this.element.replaceChildren(named("strong", this.model.name[row]), pairs(bufferFacts(this.model, row)));
    }
    this.place(event);
  }

  showStep(step, event) {
    this.row = -1;
    const held = this.model.heldAt(step);
    this.element.replaceChildren(
      make("strong", {}, this.model.stepText(step)),
      make("span", {}, `${formatBytes(this.model.liveAt(step))} in ${plural(held.size, "buffer")}`),
    );
    this.place(event);
  }

  place({ clientX, clientY }) {
    this.element.hidden = false;
    const { offsetWidth, offsetHeight } = this.element;
    const right = clientX + 16 + offsetWidth < window.innerWidth;
    const below = clientY + 16 + offsetHeight < window.innerHeight;
    this.element.style.left = `${Math.max(4, right ? clientX + 16 : clientX - 16 - offsetWidth)}px`;
    this.element.style.top = `${Math.max(4, below ? clientY + 16 : clientY - 16 - offsetHeight)}px`;
  }
}

function bufferFacts(model, row) {
  const { offset, size, lower, upper, role, again, plan } = model;
  const end = model.placed ? offset[row] + size[row] : null;
  return [
    ["Size", model.sizeText(row)],
    ["Address", model.placed ? `${formatCount(offset[row])} to ${formatCount(end)}` : null],
    ["Alignment", model.alignmentOf(row) > 1 ? `${formatCount(model.alignmentOf(row))} B` : null],
    ["Pool", plan.pools.length > 1 ? printable(plan.pools[model.pool[row]].name) : null],
    ["Steps", `${formatCount(lower[row])} to ${formatCount(upper[row] - 1)}`],
    ["First op", lifespanOp(model, lower[row])],
    ["Last op", lastOp(model, row)],
    ["Kind", role[row] > 0 ? ROLES[role[row]] : null],
    ["Again", again[row] ? "a further copy, computed again" : null],
  ];
}

// Of what the caller reads after the last op, that is said instead.
function lastOp(model, row) {
  const toEnd = model.role[row] === ROLES.indexOf("output") && model.upper[row] === model.steps;
  return toEnd && model.starts ? "kept to the end" : lifespanOp(model, model.upper[row] - 1);
}

function lifespanOp(model, step) {
  const op = model.opAt(step);
  return op === null ? null : printable(op, 80);
}
