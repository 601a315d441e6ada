// A table that sorts by any column and shows a page at a time.

const PAGE = 50;

// `columns`: { title, value(row), text(row) | cell(row), number }. Rows are of any kind.
class Table {
  constructor(place, columns, { sortBy = 0, descending = false, caption }) {
    Object.assign(this, { place, columns, sortBy, descending, caption, rows: [], shown: PAGE });
    this.isChosen = () => false;
  }

  show(rows) {
    this.rows = rows;
    this.shown = PAGE;
    this.sort();
  }

  sort() {
    const { value } = this.columns[this.sortBy];
    const keyed = this.rows.map((row, place) => ({ row, place, key: value(row) }));
    const sign = this.descending ? -1 : 1;
    keyed.sort((a, b) => sign * compareValues(a.key, b.key) || a.place - b.place);
    this.sorted = keyed.map(({ row }) => row);
    this.draw();
  }

  draw() {
    const head = make("tr", {}, ...this.columns.map((column, k) => this.heading(column, k)));
    this.lines = this.sorted.slice(0, this.shown).map((row) => [row, this.line(row)]);
    const body = make("tbody", {}, ...this.lines.map(([, line]) => line));
    const table = make("table", {}, make("caption", { class: "unseen" }, this.caption), make("thead", {}, head), body);
    const rest = this.sorted.length - this.shown;
    const more = rest <= 0 ? null : make("div", { class: "buttons more" }, make("button", {
      type: "button",
      onclick: () => {
        this.shown += 4 * PAGE;
        this.draw();
        (this.place.querySelector(".more button") ?? this.lines[this.lines.length - 1][1].querySelector("button"))?.focus();
      },
    }, `Show ${formatCount(Math.min(rest, 4 * PAGE))} more of ${formatCount(rest)}`), make("span", { class: "on-paper" }, `and ${formatCount(rest)} more`));
    this.place.replaceChildren(make("div", { class: "scroll" }, table), more || "");
  }

  // Marks what is chosen now, and leaves the focus where it is.
  mark() {
    for (const [row, line] of this.lines) line.classList.toggle("chosen", this.isChosen(row));
  }

  heading(column, k) {
    const chosen = k === this.sortBy;
    const direction = this.descending ? "descending" : "ascending";
    const press = () => {
      this.descending = chosen ? !this.descending : Boolean(column.number);
      this.sortBy = k;
      this.sort();
      this.place.querySelectorAll("th button")[k].focus();
    };
    return make(
      "th",
      { scope: "col", class: column.number ? "number" : "", "aria-sort": chosen ? direction : null },
      make("button", { type: "button", onclick: press }, column.title + (chosen ? (this.descending ? " ↓" : " ↑") : "")),
    );
  }

  line(row) {
    const cells = this.columns.map((column) => make(
      "td",
      { class: column.number ? "number" : column.name ? "name" : column.error ? "error" : "" },
      ...(column.cell ? [column.cell(row)] : column.name ? breakable(column.text(row)) : [column.text(row)]),
    ));
    return make("tr", { class: this.isChosen(row) ? "chosen" : "" }, ...cells);
  }
}

// What is not known comes last when ascending; text by its characters, the same everywhere.
function compareValues(a, b) {
  const [noA, noB] = [a === null || a === undefined, b === null || b === undefined];
  if (noA || noB) return Number(noA) - Number(noB);
  return a < b ? -1 : a > b ? 1 : 0;
}
