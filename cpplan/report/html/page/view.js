// Which steps and addresses are seen. All panels share the steps; each pool has its own addresses.

// Shares of the view: less than one in so many is not seen; one in so many is seen well.
const TOO_SMALL = 200;
const CLOSE = 40;

class View {
  constructor(steps, heights) {
    this.whole = { from: 0, to: Math.max(1, steps), heights };
    this.changed = () => {};
    this.showAll();
  }

  showAll() {
    this.from = 0;
    this.to = this.whole.to;
    this.low = this.whole.heights.map(() => 0);
    this.high = [...this.whole.heights];
    this.changed();
  }

  get isWhole() {
    return this.from === 0 && this.to === this.whole.to
      && this.low.every((low, k) => low === 0 && this.high[k] === this.whole.heights[k]);
  }

  get text() {
    const [from, to] = [Math.floor(this.from), Math.ceil(this.to)];
    const [low, high] = [Math.round(this.low[0]), Math.round(this.high[0])];
    // Far up and close by, rounded ends would look the same.
    const format = high - low < high / 20 ? (value) => `${formatCount(value)} B` : formatBytes;
    const bytes = this.low.length === 1 ? `, ${format(low)} to ${format(high)}` : "";
    return `steps ${formatCount(from)} to ${formatCount(to)}${bytes}`;
  }

  // Keeps a point in its place: `x` of the steps and `y` of the addresses, both from 0 to 1.
  zoom(factor, x, y, panel, { steps = true, bytes = true } = {}) {
    if (steps) {
      [this.from, this.to] = scaled(this.from, this.to, factor, x, this.whole.to, 1);
    }
    if (bytes && panel !== null) {
      [this.low[panel], this.high[panel]] =
        scaled(this.low[panel], this.high[panel], factor, y, this.whole.heights[panel], 4);
    }
    this.changed();
  }

  move(x, y, panel) {
    [this.from, this.to] = shifted(this.from, this.to, x, this.whole.to);
    if (panel !== null) {
      [this.low[panel], this.high[panel]] =
        shifted(this.low[panel], this.high[panel], y, this.whole.heights[panel]);
    }
    this.changed();
  }

  // As reveal(), and comes closer to what would be too small to see.
  approach(from, to, low, high, panel) {
    if ((to - from) * TOO_SMALL < this.to - this.from) this.to = this.from + (to - from) * CLOSE;
    if (panel !== null && (high - low) * TOO_SMALL < this.high[panel] - this.low[panel]) {
      this.high[panel] = this.low[panel] + Math.max(4, (high - low) * CLOSE);
    }
    this.reveal(from, to, low, high, panel);
  }

  // Brings steps and addresses into sight, with room around them; stays if they are there.
  reveal(from, to, low, high, panel) {
    if (from < this.from || to > this.to) {
      const width = Math.min(this.whole.to, Math.max(this.to - this.from, 1.5 * (to - from)));
      const start = clamp((from + to - width) / 2, 0, this.whole.to - width);
      [this.from, this.to] = [start, start + width];
    }
    if (panel !== null && (low < this.low[panel] || high > this.high[panel])) {
      const whole = this.whole.heights[panel];
      const height = Math.min(whole, Math.max(this.high[panel] - this.low[panel], 1.5 * (high - low)));
      const start = clamp((low + high - height) / 2, 0, whole - height);
      [this.low[panel], this.high[panel]] = [start, start + height];
    }
    this.changed();
  }
}

function clamp(value, low, high) {
  return Math.max(low, Math.min(high, value));
}

function scaled(low, high, factor, at, whole, least) {
  const length = clamp((high - low) * factor, Math.min(least, whole), whole);
  const start = clamp(low + at * (high - low - length), 0, whole - length);
  return [start, start + length];
}

function shifted(low, high, share, whole) {
  const start = clamp(low + share * (high - low), 0, whole - (high - low));
  return [start, start + high - low];
}
