// Who forces a buffer to where it lies, and who has its bytes at other times.

// The buffers right below: of those live at the same time, the ones that end highest at or below
// it. `spare` are the bytes between: an alignment's, or a hole that nothing small enough fills.
function restsOn(model, row) {
  const below = new Map();
  eachPair(model, row, (mine, k, spans, own) => {
    if (spans.high[k] > own.low[mine]) return;
    const spare = own.low[mine] - spans.high[k];
    const other = spans.buffer[k];
    if (!below.has(other) || spare < below.get(other)) below.set(other, spare);
  });
  const spare = Math.min(Infinity, ...below.values());
  return {
    spare: spare === Infinity ? model.offset[row] : spare,
    rows: [...below].filter(([, gap]) => gap === spare).map(([other]) => other),
  };
}

// Everything that holds a buffer up: what it touches, what those touch, and so on to the bottom.
function support(model, row) {
  const found = new Set();
  const open = [row];
  while (open.length) {
    const { rows, spare } = restsOn(model, open.pop());
    if (spare > 0) continue;
    for (const other of rows) {
      if (found.has(other)) continue;
      found.add(other);
      open.push(other);
    }
  }
  found.delete(row);
  return found;
}

// Buffers with addresses in common, by first step; with `bytes` shared with each.
function sharersOf(model, row) {
  const bytes = new Map();
  const spans = model.panels[model.pool[row]].spans;
  const own = model.spansOf(row);
  for (let k = 0; k < spans.count; k += 1) {
    const other = spans.buffer[k];
    if (other === row) continue;
    for (const mine of own) {
      const common = Math.min(spans.high[k], spans.high[mine]) - Math.max(spans.low[k], spans.low[mine]);
      if (common > (bytes.get(other) || 0)) bytes.set(other, common);
    }
  }
  return [...bytes].sort(([a], [b]) => model.lower[a] - model.lower[b] || a - b);
}

// Calls `visit` for every rectangle of a buffer with every one of another that is live with it.
function eachPair(model, row, visit) {
  const spans = model.panels[model.pool[row]].spans;
  for (const mine of model.spansOf(row)) {
    spans.each(spans.lower[mine], spans.upper[mine], (k) => {
      if (spans.buffer[k] !== row) visit(mine, k, spans, spans);
    });
  }
}
