// Lists that are read once: what rules cost, and what depends on variables.

function showRules({ data }) {
  const { rules } = data;
  if (rules === null) {
    byId("rules").append(make("p", { class: "note" }, "The model was not at hand: what each rule may cost is not told."));
    return;
  }
  if (rules.length === 0) return;
  const place = make("div");
  byId("rules").append(make("h3", {}, "What each rule of the plan may cost"), place);
  new Table(place, [
    { title: "Without", value: (row) => row[0], text: (row) => printable(row[0]) },
    { title: "Saves at most", number: true, value: (row) => row[2], text: (row) => formatBytes(row[2]) },
    { title: "Needs at least", number: true, value: (row) => row[3], text: (row) => formatBytes(row[3]) },
    { title: "Proved by", value: (row) => row[4], text: (row) => printable(row[4]) },
    { title: "Instead", name: true, value: (row) => row[1], text: (row) => printable(row[1]) },
  ], { sortBy: 1, descending: true, caption: "Rules" }).show(rules);
}

function showSymbols({ symbols }) {
  if (symbols === null) return;
  byId("symbols-section").hidden = false;
  const range = ([name, lower, upper]) => `${printable(name)} ${upper === "" ? `from ${lower} on` : lower === upper ? `= ${lower}` : `from ${lower} to ${upper}`}`;
  byId("symbols-note").textContent = `${symbols.dims.map(range).join(", ")}. Sizes and addresses above are those `
    + "at the upper bounds; the plan holds at all values in between.";
  const list = (title, headings, rows) => {
    if (rows.length === 0) return;
    const place = make("div");
    byId("symbols").append(make("h3", {}, title), place);
    new Table(place, headings.map((heading, k) => ({
      title: heading, name: true, value: (row) => row[k], text: (row) => printable(String(row[k]), 300),
    })), { caption: title }).show(rows);
  };
  list("Of any size, in no arena", ["Tensor", "Bytes", "Storage"], symbols.unbounded);
  list("Known at the bounds only", ["Tensor", "Why"], symbols.lost);
}
