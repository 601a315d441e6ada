// The rectangles of one pool, found by step without looking at all of them: sorted by their first
// step, in blocks that know their last.

const BLOCK = 64;

class Spans {
  constructor(rows, lower, upper, low, high) {
    const order = Array.from(rows.keys()).sort((a, b) => lower[a] - lower[b] || low[a] - low[b]);
    const sorted = (column) => Float64Array.from(order, (k) => column[k]);
    this.count = order.length;
    this.buffer = Int32Array.from(order, (k) => rows[k]);
    this.lower = sorted(lower);
    this.upper = sorted(upper);
    this.low = sorted(low);
    this.high = sorted(high);
    this.blockEnd = new Float64Array(Math.ceil(this.count / BLOCK));
    for (let k = 0; k < this.count; k += 1) {
      const block = Math.floor(k / BLOCK);
      this.blockEnd[block] = Math.max(this.blockEnd[block], this.upper[k]);
    }
  }

  // How many begin before a step.
  before(step) {
    let [low, high] = [0, this.count];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.lower[middle] < step) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // Calls `visit` with the number of every rectangle that has a part in steps [from, to).
  each(from, to, visit) {
    const end = this.before(to);
    for (let block = 0; block * BLOCK < end; block += 1) {
      if (this.blockEnd[block] <= from) continue;
      const stop = Math.min(end, (block + 1) * BLOCK);
      for (let k = block * BLOCK; k < stop; k += 1) if (this.upper[k] > from) visit(k);
    }
  }

  // All by their upper ends, made when first asked for.
  get byEnd() {
    if (this.sortedEnds === undefined) {
      const order = Int32Array.from(this.high.keys()).sort((a, b) => this.high[a] - this.high[b] || a - b);
      this.sortedEnds = { order, ends: Float64Array.from(order, (k) => this.high[k]) };
    }
    return this.sortedEnds;
  }

  // The buffer at a step and an address, or -1.
  at(step, address) {
    let found = -1;
    this.each(step, step + 1, (k) => {
      if (this.low[k] <= address && address < this.high[k]) found = this.buffer[k];
    });
    return found;
  }
}

// The last position of a sorted column at or before a value, or -1.
function lastAtMost(sorted, value) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
