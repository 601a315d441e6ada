// The chosen buffer: what it is, what it rests on, and who has its bytes at other times.

const MOST_LISTED = 200;

class Selection {
  constructor(model, element, choose) {
    Object.assign(this, { model, element, choose });
    this.clear();
  }

  clear() {
    this.element.classList.add("empty");
    this.element.replaceChildren(
      make("h3", { id: "selection-title" }, "No tensor selected"),
      make("p", { class: "note" }, this.model.placed
        ? "Select a rectangle to see what it rests on, and which tensors have its bytes before and after."
        : "Select a tensor in the table below."),
    );
  }

  show(chosen) {
    const { model, element } = this;
    const { row } = chosen;
    const followed = element.contains(document.activeElement);
    element.classList.remove("empty");
    element.replaceChildren(
      make("h2", { id: "selection-title", class: "name", dir: "ltr", tabindex: "-1" }, printable(model.name[row])),
      pairs(bufferFacts(model, row)),
      ...[...(model.placed ? [...this.below(chosen), ...this.sharers(chosen)] : []), ...this.within(row)].filter(Boolean),
    );
    // Whoever followed a link in here by keyboard goes on from the top of what it led to.
    if (followed) byId("selection-title").focus();
  }

  below({ row, rests, support }) {
    const { model } = this;
    const offset = model.offset[row];
    const heading = make("h3", {}, make("i", { class: "swatch rests" }), "Forced up by");
    if (offset === 0) return [heading, make("p", { class: "note" }, "Nothing: it lies at the bottom of its pool.")];
    if (rests.rows.length === 0) {
      return [heading, make("p", { class: "note" }, `Nothing live with it lies below: ${formatBytes(offset)} under it are free.`)];
    }
    const touches = rests.spare < model.alignmentOf(row);
    const spare = !touches ? `With ${formatBytes(rests.spare)} unused between, it lies above`
      : rests.spare > 0 ? `But for ${formatBytes(rests.spare)} of alignment, it rests on` : "It rests on";
    const chain = touches && support.size > rests.rows.length
      ? `; ${formatCount(support.size)} tensors in all hold it up.` : ".";
    return [
      heading,
      make("p", { class: "note" }, `${spare} ${plural(rests.rows.length, "tensor")} live at the same time${chain}`),
      this.list(rests.rows.map((other) => [other, `to ${formatBytes(model.offset[other] + model.size[other])}`])),
    ];
  }

  sharers({ row, sharers }) {
    const { model } = this;
    const heading = make("h3", {}, make("i", { class: "swatch shares" }), "Shares its bytes with");
    if (sharers.length === 0) return [heading, make("p", { class: "note" }, "No other tensor.")];
    const when = (other, atOnce) => {
      if (atOnce) return "at once";
      if (model.upper[other] <= model.lower[row]) return "before";
      return model.lower[other] >= model.upper[row] ? "after" : "in a gap";
    };
    const note = sharers.some(([, { atOnce }]) => atOnce)
      ? make("p", { class: "note" }, "At once: by choice, where an op writes over what it reads, or one lies within the other.") : null;
    return [heading, note, this.list(sharers.map(([other, { bytes, atOnce }]) => [other, `${formatBytes(bytes)} ${when(other, atOnce)}`]))];
  }

  // Tensors that lie in this buffer: views, results over arguments, parts of a whole.
  within(row) {
    const { model } = this;
    const name = model.name[row];
    const inside = (model.inside.get(name) || []).map(([tensor, at]) => [tensor, `at byte ${formatCount(at)}`]);
    if (inside.length === 0) return [];
    const relations = new Map(model.plan.relations.map(([kind, tensor]) => [tensor, kind]));
    return [
      make("h3", {}, "Tensors in it"),
      make("ul", {}, ...inside.slice(0, MOST_LISTED).map(([tensor, at]) => make(
        "li", {}, named("div", tensor), make("span", {}, relations.has(tensor) ? `${relations.get(tensor)}, ${at}` : at),
      )), rest(inside.length)),
    ];
  }

  list(entries) {
    return make("ul", {}, ...entries.slice(0, MOST_LISTED).map(([row, text]) => make(
      "li", {}, bufferLink(this.model, row, this.choose), make("span", {}, text),
    )), rest(entries.length));
  }
}

function rest(count) {
  return count > MOST_LISTED ? make("li", {}, `and ${formatCount(count - MOST_LISTED)} more`) : null;
}

function bufferLink(model, row, choose) {
  return named("button", model.name[row], { class: "link name", type: "button", onclick: () => choose(row) });
}
