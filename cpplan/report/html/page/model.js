// What is in the file, as columns that are quick to look through.

class Model {
  constructor(data) {
    const { plan, columns } = data;
    Object.assign(this, { data, plan, given: data.given, symbols: data.symbols });
    Object.assign(this, columns);
    this.count = this.name.length;
    this.placed = this.offset !== null;
    this.pool = columns.pool || new Int32Array(this.count);
    this.steps = this.upper.reduce((a, b) => Math.max(a, b), 0);
    this.starts = data.starts;
    if (this.starts) this.steps = Math.max(this.steps, this.starts[this.starts.length - 1]);
    this.largest = this.size.reduce((a, b) => Math.max(a, b), 0);
    this.fill = Uint8Array.from(this.size, (size, k) => fillNumber(this.role[k], size, this.largest));
    this.all = this.rectangles(data);
    this.profile = liveProfile(this.all);
    this.fullest = this.fullestStep();
    this.panels = this.placed ? plan.pools.map((pool, number) => this.panel(pool, number)) : [];
    this.inside = new Map();
    for (const [tensor, [buffer, within]] of Object.entries(plan.views)) {
      if (!this.inside.has(buffer)) this.inside.set(buffer, []);
      this.inside.get(buffer).push([tensor, within]);
    }
    this.byTime = Array.from(this.lower.keys())
      .sort((a, b) => this.lower[a] - this.lower[b] || a - b)
      .filter((row) => this.size[row] > 0);
  }

  // Of every rectangle its buffer, steps, bytes within the buffer, addresses in the pool, and with
  // which others it shares bytes.
  rectangles({ plan, spans }) {
    const { lower, upper, size, count, placed, offset, pool } = this;
    const found = spans ?? {
      buffer: Array.from({ length: count }, (_, k) => k), lower, upper, begin: new Float64Array(count), end: size,
    };
    const { buffer, begin, end } = found;
    const lift = (column) => (placed ? Float64Array.from(column, (at, k) => offset[buffer[k]] + at) : column);
    const all = {
      ...found, low: lift(begin), high: lift(end), held: Float64Array.from(end, (at, k) => at - begin[k]),
    };
    const shared = placed && plan.relations.length > 0;
    all.group = shared ? groupOverlapping(all, pool) : new Int32Array(buffer.length).fill(-1);
    return all;
  }

  panel(pool, number) {
    const { buffer, lower, upper, low, high, held } = this.all;
    const mine = [...buffer.keys()].filter((k) => this.pool[buffer[k]] === number && held[k] > 0);
    const take = (column) => mine.map((k) => column[k]);
    const spans = new Spans(...[buffer, lower, upper, low, high].map(take));
    const only = this.plan.pools.length === 1;
    const top = this.name.reduce((most, _, k) => this.pool[k] === number
      ? Math.max(most, this.offset[k] + this.size[k]) : most, 0);
    const peak = only ? this.plan.peak ?? top : top;
    const first = new Map();
    for (let k = 0; k < spans.count; k += 1) {
      if (!first.has(spans.buffer[k])) first.set(spans.buffer[k], []);
      first.get(spans.buffer[k]).push(k);
    }
    return {
      ...pool, number, spans, peak, first,
      bound: only ? this.plan.lower_bound : null,
      capacity: only && this.plan.capacity !== null ? this.plan.capacity : pool.capacity,
    };
  }

  // Numbers of a buffer's rectangles within its pool's.
  spansOf(row) {
    return this.panels[this.pool[row]].first.get(row) || [];
  }

  // What its address is a multiple of, as far as the report was told.
  alignmentOf(row) {
    return Math.max(this.plan.pools[this.pool[row]].alignment, this.alignment ? this.alignment[row] : 1);
  }

  fullestStep() {
    const { times, live } = this.profile;
    let best = 0;
    for (let k = 1; k < live.length; k += 1) if (live[k] > live[best]) best = k;
    return times.length ? times[best] : 0;
  }

  liveAt(step) {
    const place = lastAtMost(this.profile.times, step);
    return place < 0 ? 0 : this.profile.live[place];
  }

  // Buffers live at a step, and the bytes of each that no larger one holds: together, all that are
  // filled.
  heldAt(step) {
    const { buffer, lower, upper, held, low, high, group } = this.all;
    const found = new Map();
    const add = (k, bytes) => found.set(buffer[k], (found.get(buffer[k]) || 0) + bytes);
    const groups = new Map();
    for (let k = 0; k < buffer.length; k += 1) {
      if (lower[k] > step || step >= upper[k] || held[k] === 0) continue;
      if (group[k] < 0) add(k, held[k]);
      else groups.set(group[k], [...(groups.get(group[k]) || []), k]);
    }
    for (const members of groups.values()) ownBytes(members, low, high).forEach(([k, own]) => add(k, own));
    return found;
  }

  // Name of the op that runs at a step, or null where the plan does not say.
  opAt(step) {
    if (!this.starts) return null;
    return this.plan.order[lastAtMost(this.starts, step)] ?? null;
  }

  // First steps of ops that have run before.
  stepsAgain() {
    if (!this.starts) return [];
    const seen = new Set();
    return this.plan.order.flatMap((op, k) => {
      const again = seen.has(op);
      seen.add(op);
      return again ? [this.starts[k]] : [];
    });
  }

  stepText(step) {
    const op = this.opAt(step);
    return op === null ? `step ${formatCount(step)}` : `step ${formatCount(step)}, ${printable(op, 60)}`;
  }

  sizeText(row) {
    const formula = this.symbols && this.symbols.size[row];
    return formatBytes(this.size[row]) + (formula ? ` = ${printable(formula)} at the bounds` : "");
  }
}
