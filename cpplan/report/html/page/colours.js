// Colours of the style sheet, read again when the light changes; what each stands for.

const printing = window.matchMedia("print");
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const COLOURS = [
  "tint-0", "tint-1", "tint-2", "tint-3", "input", "output", "constant", "workspace", "map", "edge",
  "label", "grid", "peak", "bound", "capacity", "curve", "curve-fill", "chosen", "rests", "shares",
  "soft", "again", "card", "good", "fair",
];
let colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  colours = Object.fromEntries(COLOURS.map((key) => [key, style.getPropertyValue(`--${key}`).trim()]));
}

// What a rectangle may be filled with: intermediates by size, the others by role.
const FILLS = ["tint-0", "tint-1", "tint-2", "tint-3", "input", "output", "constant", "workspace"];
const ROLES = ["intermediate", "input", "output", "constant", "workspace"];

function fillNumber(role, size, largest) {
  if (role > 0) return 3 + role;
  const share = size / Math.max(1, largest);
  return share > 0.5 ? 3 : share > 0.125 ? 2 : share > 1 / 64 ? 1 : 0;
}

// Whoever cannot tell the colours apart sees the hatching of what is computed again.
function hatch(pen, left, top, width, height) {
  pen.save();
  pen.beginPath();
  pen.rect(left, top, width, height);
  pen.clip();
  pen.beginPath();
  for (let x = left - height; x < left + width; x += 6) {
    pen.moveTo(x, top + height);
    pen.lineTo(x + height, top);
  }
  pen.strokeStyle = colours.label;
  pen.globalAlpha *= 0.45;
  pen.lineWidth = 1;
  pen.stroke();
  pen.restore();
}
