// One pool: steps to the right, addresses upwards, a rectangle for every buffer that is there.

const MARGIN = { left: 66, right: 132, top: 10, bottom: 22 };
const NARROW = 640;
const MOST_LABELS = 400;

class ArenaMap {
  constructor(model, view, panel, canvas) {
    Object.assign(this, { model, view, panel, canvas });
    this.chosen = null;
  }

  // Of the picture in CSS pixels: where a step and an address are, and what is where.
  frame(width, height) {
    const { view, panel } = this;
    const [from, low] = [view.from, view.low[panel.number]];
    const inner = { width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
    const perStep = inner.width / (view.to - from);
    const perByte = inner.height / (view.high[panel.number] - low);
    const bottom = MARGIN.top + inner.height;
    return {
      inner, perStep, perByte, bottom,
      x: (step) => MARGIN.left + (step - from) * perStep,
      y: (address) => bottom - (address - low) * perByte,
      step: (x) => from + (x - MARGIN.left) / perStep,
      address: (y) => low + (bottom - y) / perByte,
    };
  }

  draw() {
    const sharp = sharpen(this.canvas);
    if (sharp === null || sharp.width <= MARGIN.left + MARGIN.right) return;
    const { pen, width, height } = sharp;
    const frame = this.frame(width, height);
    pen.fillStyle = colours.map;
    pen.fillRect(MARGIN.left, MARGIN.top, frame.inner.width, frame.inner.height);
    pen.save();
    pen.beginPath();
    pen.rect(MARGIN.left, MARGIN.top, frame.inner.width, frame.inner.height);
    pen.clip();
    this.drawBuffers(pen, frame);
    this.drawChoice(pen, frame);
    pen.restore();
    this.drawLines(pen, frame, width);
    drawStepAxis(pen, this.view, frame);
    this.drawAddressAxis(pen, frame);
  }

  drawBuffers(pen, frame) {
    const { spans } = this.panel;
    const { model, view, chosen } = this;
    const wide = Math.ceil(frame.inner.width);
    const taken = new Uint8Array(wide * Math.ceil(frame.inner.height + 1));
    const groups = FILLS.map(() => []);
    const [labels, again] = [[], []];
    const low = view.low[this.panel.number];
    const high = view.high[this.panel.number];
    spans.each(view.from, view.to, (k) => {
      if (spans.high[k] <= low || spans.low[k] >= high) return;
      const left = Math.max(-2, Math.round(frame.x(spans.lower[k])));
      const right = Math.min(MARGIN.left + wide + 2, Math.round(frame.x(spans.upper[k])));
      const top = Math.max(-2, Math.round(frame.y(spans.high[k])));
      const bottom = Math.min(frame.bottom + 2, Math.round(frame.y(spans.low[k])));
      const across = Math.max(1, right - left);
      const along = Math.max(1, bottom - top);
      if (across === 1 && along === 1) {
        // Thousands of points may fall on one another: the first is seen.
        const place = (top - MARGIN.top) * wide + left - MARGIN.left;
        if (taken[place]) return;
        taken[place] = 1;
      }
      const row = spans.buffer[k];
      // A seam of the background tells neighbours apart, where there is room for one.
      const seam = across > 3 && along > 3 ? 1 : 0;
      groups[model.fill[row]].push(left, top, across - seam, along - seam);
      if (model.again[row] && across > 3 && along > 3) again.push(left, top, across - 1, along - 1);
      if (across > 44 && along > 13 && labels.length < MOST_LABELS) labels.push(row, left, right, top, along);
    });
    pen.globalAlpha = chosen === null ? 1 : 0.55;
    groups.forEach((boxes, fill) => {
      pen.fillStyle = colours[FILLS[fill]];
      for (let k = 0; k < boxes.length; k += 4) pen.fillRect(boxes[k], boxes[k + 1], boxes[k + 2], boxes[k + 3]);
    });
    for (let k = 0; k < again.length; k += 4) hatch(pen, again[k], again[k + 1], again[k + 2], again[k + 3]);
    pen.globalAlpha = 1;
    this.drawLabels(pen, labels);
  }

  drawLabels(pen, labels) {
    pen.fillStyle = colours.label;
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    for (let k = 0; k < labels.length; k += 5) {
      const [row, left, right, top, along] = labels.slice(k, k + 5);
      const start = Math.max(left, MARGIN.left) + 5;
      const room = Math.min(right, this.canvas.clientWidth - MARGIN.right) - start - 6;
      const most = Math.floor(room / 6.3);
      if (most >= 4) pen.fillText(printable(this.model.name[row], most), start, top + along / 2, room);
    }
  }

  drawChoice(pen, frame) {
    const { chosen, panel } = this;
    if (chosen === null || this.model.pool[chosen.row] !== panel.number) return;
    const outline = (row, colour, thick, dash = []) => {
      pen.strokeStyle = colour;
      pen.lineWidth = thick;
      pen.setLineDash(dash);
      for (const k of panel.first.get(row) || []) {
        const left = Math.max(-9, frame.x(panel.spans.lower[k]));
        const right = Math.min(MARGIN.left + frame.inner.width + 9, frame.x(panel.spans.upper[k]));
        const top = Math.max(-9, frame.y(panel.spans.high[k]));
        const bottom = Math.min(frame.bottom + 9, frame.y(panel.spans.low[k]));
        const [across, along] = [right - left, bottom - top];
        if (Math.min(across, along) < 4 * thick && row !== chosen.row) {
          // Frames of hundreds of thin ones would cover what they frame.
          pen.globalAlpha = 0.5;
          pen.fillStyle = colour;
          pen.fillRect(left, top, Math.max(0.5, across - 0.5), Math.max(0.5, along - 0.5));
          pen.globalAlpha = 1;
        } else {
          pen.strokeRect(left + thick / 2, top + thick / 2, Math.max(1, across - thick), Math.max(1, along - thick));
        }
      }
      pen.setLineDash([]);
    };
    for (const [row] of chosen.sharers.slice(0, 2000)) outline(row, colours.shares, 1.5, [3, 3]);
    for (const row of chosen.support) outline(row, colours.rests, 2);
    pen.fillStyle = colours[FILLS[this.model.fill[chosen.row]]];
    for (const k of panel.first.get(chosen.row) || []) {
      const [left, top] = [frame.x(panel.spans.lower[k]), frame.y(panel.spans.high[k])];
      pen.fillRect(left, top, frame.x(panel.spans.upper[k]) - left, frame.y(panel.spans.low[k]) - top);
    }
    outline(chosen.row, colours.chosen, 2.5);
    pen.fillStyle = colours.label;
  }

  drawLines(pen, frame, width) {
    const { peak, bound, capacity } = this.panel;
    drawLevels(pen, [["capacity", capacity], ["peak", peak], ["bound", bound]], frame, width - MARGIN.right);
  }

  drawAddressAxis(pen, frame) {
    const number = this.panel.number;
    drawByteAxis(pen, this.view.low[number], this.view.high[number], frame.y, frame.inner.height);
  }
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

function drawByteAxis(pen, low, high, y, height) {
  pen.fillStyle = colours.soft;
  pen.strokeStyle = colours.grid;
  pen.lineWidth = 1;
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  for (const value of ticks(low, high, height / 44, true)) {
    const at = Math.round(y(value)) + 0.5;
    pen.beginPath();
    pen.moveTo(MARGIN.left - 4, at);
    pen.lineTo(MARGIN.left, at);
    pen.stroke();
    pen.fillText(formatBytes(value), MARGIN.left - 7, at);
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
