// Buffers and the tensors in them, found by a part of their name.

const MOST_FOUND = 40;

class Search {
  constructor(model, input, list, choose) {
    Object.assign(this, { model, input, list, choose, found: [], at: -1 });
    // Names as they are and as they are shown: either may be typed.
    this.entries = model.name.map((name, row) => ({ key: keyOf(name), name, row }));
    const rows = new Map(model.name.map((name, row) => [name, row]));
    for (const [tensor, [buffer]] of Object.entries(model.plan.views)) {
      if (rows.has(buffer)) this.entries.push({ key: keyOf(tensor), name: tensor, row: rows.get(buffer), buffer });
    }
    input.addEventListener("input", () => this.find());
    input.addEventListener("focus", () => this.find());
    input.addEventListener("blur", () => this.close());
    input.addEventListener("keydown", (event) => this.press(event));
    // Not click: that comes after the blur that closes the list.
    list.addEventListener("mousedown", (event) => {
      event.preventDefault();
      const item = event.target.closest("[data-at]");
      if (item) this.take(Number(item.dataset.at));
    });
  }

  find() {
    const wanted = keyOf(this.input.value.trim());
    const matches = wanted === "" ? [] : this.entries.filter(({ key }) => key.includes(wanted));
    const rank = ({ key }) => (key === wanted ? 0 : key.startsWith(wanted) ? 1 : 2);
    matches.sort((a, b) => rank(a) - rank(b));
    this.found = matches.slice(0, MOST_FOUND);
    this.at = this.found.length ? 0 : -1;
    const items = this.found.map(({ name, row, buffer }, k) => make(
      "li", { role: "option", id: `found-${k}`, "data-at": k },
      named("span", name), make("span", {}, buffer === undefined ? formatBytes(this.model.size[row]) : `in ${printable(buffer, 40)}`),
    ));
    if (wanted !== "" && matches.length === 0) items.push(make("li", { class: "rest" }, "No tensor has this in its name."));
    if (matches.length > MOST_FOUND) items.push(make("li", { class: "rest" }, `and ${formatCount(matches.length - MOST_FOUND)} more`));
    this.list.replaceChildren(...items);
    this.list.hidden = items.length === 0;
    this.mark();
  }

  mark() {
    [...this.list.children].forEach((item, k) => {
      if (item.dataset.at !== undefined) item.setAttribute("aria-selected", String(k === this.at));
    });
    this.input.setAttribute("aria-expanded", String(!this.list.hidden));
    if (this.at >= 0) {
      this.input.setAttribute("aria-activedescendant", `found-${this.at}`);
      this.list.children[this.at].scrollIntoView({ block: "nearest" });
    } else {
      this.input.removeAttribute("aria-activedescendant");
    }
  }

  press(event) {
    const count = this.found.length;
    if (event.key === "Escape" && !this.list.hidden) {
      this.close();
    } else if (event.key === "Enter" && this.at >= 0) {
      this.take(this.at);
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && count) {
      this.at = (this.at + (event.key === "ArrowDown" ? 1 : count - 1)) % count;
      this.mark();
    } else {
      return;
    }
    event.preventDefault();
  }

  take(at) {
    const { row } = this.found[at];
    this.close();
    this.choose(row);
  }

  close() {
    this.found = [];
    this.at = -1;
    this.list.hidden = true;
    this.mark();
  }
}

function keyOf(name) {
  return printable(name, Infinity).toLowerCase();
}
