// Bytes that several buffers share by choice: an op writes over what it reads, or parts lie within
// a whole. Both are there at the same steps and addresses, and what they fill counts once.

// Of every rectangle the number of its group, or -1; rectangles that overlap are in one group.
function groupOverlapping({ buffer, lower, upper, low, high, held }, pool) {
  const parent = Int32Array.from(buffer.keys());
  const top = (k) => {
    let at = k;
    while (parent[at] !== at) at = parent[at] = parent[parent[at]];
    return at;
  };
  const grouped = new Uint8Array(buffer.length);
  let open = [];
  for (const k of byLower(buffer.keys(), lower)) {
    if (held[k] === 0) continue;
    open = open.filter((other) => upper[other] > lower[k]);
    for (const other of open) {
      if (pool[buffer[k]] !== pool[buffer[other]] || low[k] >= high[other] || low[other] >= high[k]) continue;
      parent[top(k)] = top(other);
      grouped[k] = grouped[other] = 1;
    }
    open.push(k);
  }
  return parent.map((_, k) => (grouped[k] ? top(k) : -1));
}

function byLower(rows, lower) {
  return [...rows].sort((a, b) => lower[a] - lower[b] || a - b);
}

// Steps at which the bytes filled change, and the bytes from each on.
function liveProfile({ lower, upper, held, low, high, group }) {
  const change = new Map();
  const add = (step, bytes) => change.set(step, (change.get(step) || 0) + bytes);
  const groups = new Map();
  for (let k = 0; k < lower.length; k += 1) {
    if (held[k] === 0) continue;
    if (group[k] >= 0) {
      if (!groups.has(group[k])) groups.set(group[k], []);
      groups.get(group[k]).push(k);
    } else {
      add(lower[k], held[k]);
      add(upper[k], -held[k]);
    }
  }
  for (const members of groups.values()) {
    const waiting = byLower(members, lower).reverse();
    let [open, before] = [[], 0];
    for (const step of new Set(members.flatMap((k) => [lower[k], upper[k]]).sort((a, b) => a - b))) {
      open = open.filter((k) => upper[k] > step);
      while (waiting.length && lower[waiting[waiting.length - 1]] === step) open.push(waiting.pop());
      const filled = unionLength(open, low, high);
      add(step, filled - before);
      before = filled;
    }
  }
  const times = Float64Array.from(change.keys()).sort();
  let bytes = 0;
  const live = Float64Array.from(times, (time) => (bytes += change.get(time)));
  return { times, live };
}

function unionLength(rows, low, high) {
  let [filled, end] = [0, -Infinity];
  for (const k of [...rows].sort((a, b) => low[a] - low[b])) {
    filled += Math.max(0, high[k] - Math.max(low[k], end));
    end = Math.max(end, high[k]);
  }
  return filled;
}

// Of rectangles that overlap, the bytes of each that no larger one holds.
function ownBytes(rows, low, high) {
  const bySize = [...rows].sort((a, b) => (high[b] - low[b]) - (high[a] - low[a]) || a - b);
  let before = 0;
  return bySize.map((k, place) => {
    const filled = unionLength(bySize.slice(0, place + 1), low, high);
    const own = filled - before;
    before = filled;
    return [k, own];
  });
}
