// One pool: steps to the right, addresses upwards, a rectangle for every buffer that is there.

const MOST_LABELS = 400;
const THIN = 10;

class ArenaMap {
  constructor(model, view, panel, canvas) {
    Object.assign(this, { model, view, panel, canvas });
    this.chosen = null;
  }

  get levels() {
    const { peak, bound, capacity } = this.panel;
    return [["capacity", capacity], ["peak", peak], ["bound", bound]];
  }

  frame(width, height) {
    const { view, panel } = this;
    return stepFrame(view, width, height, view.low[panel.number], view.high[panel.number]);
  }

  draw() {
    drawFramed(this, (pen, frame) => {
      this.drawBuffers(pen, frame);
      this.drawChoice(pen, frame);
    });
  }

  drawBuffers(pen, frame) {
    const { spans } = this.panel;
    const { model, view } = this;
    const { low, high } = frame;
    const wide = Math.ceil(frame.inner.width);
    const taken = new Uint8Array(wide * Math.ceil(frame.inner.height + 1));
    const groups = FILLS.map(() => []);
    const [labels, again] = [[], []];
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
    groups.forEach((boxes, fill) => {
      pen.fillStyle = colours[FILLS[fill]];
      for (let k = 0; k < boxes.length; k += 4) pen.fillRect(boxes[k], boxes[k + 1], boxes[k + 2], boxes[k + 3]);
    });
    for (let k = 0; k < again.length; k += 4) hatch(pen, again[k], again[k + 1], again[k + 2], again[k + 3]);
    if (this.chosen !== null) {
      // A veil, not thinner colours: those would add up where buffers share bytes.
      pen.globalAlpha = 0.45;
      fillFrame(pen, frame);
      pen.globalAlpha = 1;
    }
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
        if (across <= 0 || along <= 0) continue;
        if (Math.min(across, along) < THIN && row !== chosen.row) {
          // Frames of thousands of thin ones would cover what they frame, and take long.
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
    for (const [row] of chosen.sharers) outline(row, colours.shares, 1.5, [3, 3]);
    for (const row of chosen.support) outline(row, colours.rests, 2);
    pen.fillStyle = colours[FILLS[this.model.fill[chosen.row]]];
    for (const k of panel.first.get(chosen.row) || []) {
      const [left, top] = [frame.x(panel.spans.lower[k]), frame.y(panel.spans.high[k])];
      pen.fillRect(left, top, frame.x(panel.spans.upper[k]) - left, frame.y(panel.spans.low[k]) - top);
    }
    outline(chosen.row, colours.chosen, 2.5);
    pen.fillStyle = colours.label;
  }
}
