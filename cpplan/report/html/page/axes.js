// What every picture over the steps has: a frame, axes, and lines with names for peak, bound and
// capacity.

const MARGIN = { left: 66, right: 132, top: 10, bottom: 22 };
const NARROW = 640;

// Of a picture in CSS pixels: where a step and a number of bytes are, and what is where.
function stepFrame(view, width, height, low, high) {
  const inner = { width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
  const bottom = MARGIN.top + inner.height;
  const perStep = inner.width / (view.to - view.from);
  const perByte = inner.height / (high - low);
  return {
    inner, bottom, low, high,
    x: (step) => MARGIN.left + (step - view.from) * perStep,
    y: (bytes) => bottom - (bytes - low) * perByte,
    step: (x) => view.from + (x - MARGIN.left) / perStep,
    bytes: (y) => low + (bottom - y) / perByte,
  };
}

// `chart` has frame(), its levels, and what draws within the frame and may not leave it.
function drawFramed(chart, drawInside) {
  const sharp = sharpen(chart.canvas);
  if (sharp === null || sharp.width <= MARGIN.left + MARGIN.right) return;
  const { pen, width, height } = sharp;
  const frame = chart.frame(width, height);
  fillFrame(pen, frame);
  pen.save();
  pen.beginPath();
  pen.rect(MARGIN.left, MARGIN.top, frame.inner.width, frame.inner.height);
  pen.clip();
  drawInside(pen, frame);
  pen.restore();
  drawLevels(pen, chart.levels, frame, width - MARGIN.right);
  drawStepAxis(pen, chart.view, frame);
  drawByteAxis(pen, frame);
}

function fillFrame(pen, frame) {
  pen.fillStyle = colours.map;
  pen.fillRect(MARGIN.left, MARGIN.top, frame.inner.width, frame.inner.height);
}

// Beside the picture there is room for the names of its lines, if the page is wide enough.
function fitMargin() {
  MARGIN.right = document.documentElement.clientWidth < NARROW ? 8 : 132;
}

const DASHES = { peak: [], bound: [2, 3], capacity: [8, 4] };

// Lines with their names beside them; those at one height are one line with all names.
function drawLevels(pen, levels, frame, right) {
  const shown = levels.filter(([, value]) => value !== null && value !== undefined
    && frame.y(value) >= MARGIN.top && frame.y(value) <= frame.bottom + 1);
  for (const [key, value] of shown) {
    const y = Math.round(frame.y(value)) + 0.5;
    pen.strokeStyle = colours[key];
    pen.lineWidth = 1.5;
    pen.setLineDash(DASHES[key]);
    pen.beginPath();
    pen.moveTo(MARGIN.left, y);
    pen.lineTo(right, y);
    pen.stroke();
  }
  pen.setLineDash([]);
  const texts = new Map();
  for (const [key, value] of shown) texts.set(value, [...(texts.get(value) || []), key]);
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  let above = -Infinity;
  for (const [value, keys] of [...texts].sort(([a], [b]) => b - a)) {
    const text = `${keys.join(" = ")} ${formatBytes(value)}`;
    const y = Math.max(frame.y(value), above);
    pen.fillStyle = colours[keys[0]];
    if (MARGIN.right > 100) {
      pen.fillText(text, right + 7, y + 0.5, MARGIN.right - 8);
    } else {
      // On a narrow page the names stand in the picture.
      const wide = pen.measureText(text).width + 8;
      pen.globalAlpha = 0.8;
      pen.fillStyle = colours.card;
      pen.fillRect(right - wide - 3, y + 2, wide, 15);
      pen.globalAlpha = 1;
      pen.fillStyle = colours[keys[0]];
      pen.fillText(text, right - wide + 1, y + 10);
    }
    above = y + 15;
  }
}

function drawByteAxis(pen, { low, high, y, inner }) {
  pen.fillStyle = colours.soft;
  pen.strokeStyle = colours.grid;
  pen.lineWidth = 1;
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  const values = ticks(low, high, inner.height / 44, true);
  const format = byteFormat(values);
  for (const value of values) {
    const at = Math.round(y(value)) + 0.5;
    pen.beginPath();
    pen.moveTo(MARGIN.left - 4, at);
    pen.lineTo(MARGIN.left, at);
    pen.stroke();
    pen.fillText(format(value), MARGIN.left - 7, at, MARGIN.left - 8);
  }
}

function drawStepAxis(pen, view, frame) {
  pen.fillStyle = colours.soft;
  pen.strokeStyle = colours.grid;
  pen.lineWidth = 1;
  pen.textAlign = "center";
  pen.textBaseline = "top";
  for (const step of ticks(view.from, view.to, frame.inner.width / 90, false, true)) {
    const at = Math.round(frame.x(step)) + 0.5;
    pen.beginPath();
    pen.moveTo(at, frame.bottom);
    pen.lineTo(at, frame.bottom + 4);
    pen.stroke();
    pen.fillText(formatCount(step), at, frame.bottom + 6);
  }
}
