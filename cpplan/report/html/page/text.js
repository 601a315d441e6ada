// Names and numbers as people read them.

// Control characters, marks that turn the direction of writing, line ends of all scripts, spaces
// that look like others, halves of characters: shown as escapes, as Python would write them.
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;

function printable(name, most = 120) {
  let text = name;
  if (text.length > most) {
    const tail = Math.floor(most / 3);
    // No half of a character is left where it is cut.
    const [begin, end] = [text.slice(0, most - tail - 1), text.slice(-tail)];
    text = `${begin.replace(/[\ud800-\udbff]$/, "")}…${end.replace(/^[\udc00-\udfff]/, "")}`;
  }
  return text.replace(UNPRINTABLE, (character) => {
    const code = character.codePointAt(0).toString(16);
    if (code.length <= 2) return `\\x${code.padStart(2, "0")}`;
    return code.length <= 4 ? `\\u${code.padStart(4, "0")}` : `\\U${code.padStart(8, "0")}`;
  });
}

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

function formatBytes(count) {
  if (count === null || count === undefined) return "unknown";
  if (Math.abs(count) < 10240) return `${formatCount(count)} B`;
  const power = bytePower(count);
  const value = count / 2 ** (10 * power);
  return `${value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2)} ${BYTE_UNITS[power]}`;
}

function bytePower(count) {
  return Math.min(Math.floor(Math.log2(Math.max(1, Math.abs(count))) / 10), BYTE_UNITS.length - 1);
}

// How the values of an axis are written: all in one unit, with the digits that tell them apart.
function byteFormat(values) {
  const most = values.reduce((a, b) => Math.max(a, b), 0);
  const step = values.length > 1 ? values[1] - values[0] : most;
  const power = most < 10240 ? 0 : Math.min(bytePower(most), bytePower(4 * step));
  const unit = 2 ** (10 * power);
  const digits = Math.max(0, Math.ceil(Math.log2(unit / step)));
  return (value) => (value === 0 ? "0" : `${formatCount((value / unit).toFixed(digits))} ${BYTE_UNITS[power]}`);
}

// Digits in groups of three, the same in every country: a figure is copied into a review as it is.
function formatCount(count) {
  return String(count).replace(/\B(?<!\.\d*)(?=(\d{3})+(?!\d))/g, "\u202f");
}

function formatNumber(value) {
  return Number.isInteger(value) ? formatCount(value) : String(Number(value.toPrecision(6)));
}

function formatShare(share) {
  return `${(100 * share).toFixed(2)}\u202f%`;
}

function formatSeconds(seconds) {
  if (seconds === null || seconds === undefined) return "unknown";
  return seconds < 1 ? `${(1000 * seconds).toPrecision(3)} ms` : `${seconds.toPrecision(4)} s`;
}

function plural(count, noun) {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

// Round values for an axis: about `most` multiples of 1, 2 or 5 times a power of `base`.
function ticks(low, high, most, inBytes = false, whole = false) {
  const rough = (high - low) / Math.max(1, most);
  if (!(rough > 0)) return [];
  let step;
  if (inBytes) {
    step = 2 ** Math.ceil(Math.log2(rough));
  } else {
    const power = 10 ** Math.floor(Math.log10(rough));
    step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  }
  if (whole || inBytes) step = Math.max(1, step);
  const values = [];
  for (let k = Math.ceil(low / step); k * step <= high; k += 1) values.push(k * step);
  return values;
}
