// Who forces a buffer to where it lies, and who has its bytes at other times.

// The buffers right below: of those live at the same time, the ones that end highest at or below
// it. `spare` are the bytes between: an alignment's, or a hole that nothing small enough fills.
function restsOn(model, row) {
  const below = new Map();
  eachPair(model, row, (mine, k, spans) => {
    const spare = spans.low[mine] - spans.high[k];
    if (spare < 0) return;
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
// Bytes that only an alignment leaves do not part two.
function support(model, row) {
  const found = new Set([row]);
  const open = [row];
  while (open.length) {
    eachTouching(model, open.pop(), (other) => {
      if (found.has(other)) return;
      found.add(other);
      open.push(other);
    });
  }
  found.delete(row);
  return found;
}

// Calls `visit` for every buffer that ends where another begins, while that is live. Spans by their
// upper ends are looked up: a chain of thousands is found at once.
function eachTouching(model, row, visit) {
  const spans = model.panels[model.pool[row]].spans;
  const { order, ends } = spans.byEnd;
  for (const mine of model.spansOf(row)) {
    const lowest = spans.low[mine] - model.alignmentOf(row);
    for (let at = lastAtMost(ends, spans.low[mine]); at >= 0 && ends[at] > lowest; at -= 1) {
      const k = order[at];
      if (spans.lower[k] < spans.upper[mine] && spans.lower[mine] < spans.upper[k]) visit(spans.buffer[k]);
    }
  }
}

// Buffers with addresses in common, by first step: how many bytes, and whether at the same time.
function sharersOf(model, row) {
  const shared = new Map();
  const spans = model.panels[model.pool[row]].spans;
  const own = model.spansOf(row);
  for (let k = 0; k < spans.count; k += 1) {
    const other = spans.buffer[k];
    if (other === row) continue;
    for (const mine of own) {
      const common = Math.min(spans.high[k], spans.high[mine]) - Math.max(spans.low[k], spans.low[mine]);
      if (common <= 0) continue;
      const atOnce = spans.lower[k] < spans.upper[mine] && spans.lower[mine] < spans.upper[k];
      const before = shared.get(other) || { bytes: 0, atOnce: false };
      shared.set(other, { bytes: Math.max(common, before.bytes), atOnce: atOnce || before.atOnce });
    }
  }
  return [...shared].sort(([a], [b]) => model.lower[a] - model.lower[b] || a - b);
}

// Calls `visit` for every rectangle of a buffer with every one of another that is live with it.
function eachPair(model, row, visit) {
  const spans = model.panels[model.pool[row]].spans;
  for (const mine of model.spansOf(row)) {
    spans.each(spans.lower[mine], spans.upper[mine], (k) => {
      if (spans.buffer[k] !== row) visit(mine, k, spans);
    });
  }
}
