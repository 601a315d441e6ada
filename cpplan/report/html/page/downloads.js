// Text as a file of the reader's.

function fileBase(name, otherwise) {
  return printable(name).replace(/[^\w.-]+/g, "_").replace(/^\.+/, "").slice(0, 80) || otherwise;
}

function csvText(rows) {
  return rows.map((row) => `${row.map(csvCell).join(",")}\r\n`).join("");
}

// Quoted where it must be. A spreadsheet would run text that looks like a formula: an apostrophe
// in front keeps it text (the JSON has names as they are).
function csvCell(value) {
  if (typeof value !== "string") return value ?? "";
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// Two buttons that save rows, all with the same keys.
function offerRows({ title }, otherwise, rows) {
  const base = fileBase(title, otherwise);
  const columns = Object.keys(rows[0] ?? {});
  byId("download-json").addEventListener("click", () => save(`${base}.json`, "application/json", `${JSON.stringify(rows, null, 1)}\n`));
  byId("download-csv").addEventListener("click", () => save(`${base}.csv`, "text/csv", csvText([
    columns, ...rows.map((row) => columns.map((column) => row[column])),
  ])));
}

function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = make("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
