// Live bytes over the same steps as the maps: their maximum is what any packing needs.

class LiveChart {
  constructor(model, view, canvas) {
    Object.assign(this, { model, view, canvas });
    this.step = model.fullest;
    const { plan } = model;
    this.levels = plan.pools.length > 1
      ? [["peak", null]]
      : [["capacity", plan.capacity ?? plan.pools[0].capacity], ["peak", plan.peak], ["bound", plan.lower_bound]];
    const most = model.profile.live.reduce((a, b) => Math.max(a, b), 1);
    this.top = 1.08 * Math.max(most, ...this.levels.map(([key, value]) => (key === "capacity" ? 0 : value || 0)));
    this.levels = this.levels.filter(([, value]) => value !== null && value <= this.top);
  }

  frame(width, height) {
    const inner = { width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
    const perStep = inner.width / (this.view.to - this.view.from);
    const bottom = MARGIN.top + inner.height;
    return {
      inner, bottom,
      x: (step) => MARGIN.left + (step - this.view.from) * perStep,
      y: (bytes) => bottom - (bytes / this.top) * inner.height,
      step: (x) => this.view.from + (x - MARGIN.left) / perStep,
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
    this.drawCurve(pen, frame);
    this.drawStep(pen, frame);
    pen.restore();
    drawLevels(pen, this.levels, frame, width - MARGIN.right);
    drawStepAxis(pen, this.view, frame);
    drawByteAxis(pen, 0, this.top, frame.y, frame.inner.height);
  }

  // Of the changes that fall on one column of pixels, the most bytes are drawn.
  drawCurve(pen, frame) {
    const { times, live } = this.model.profile;
    const first = Math.max(0, lastAtMost(times, this.view.from));
    const points = [];
    let before = 0;
    for (let k = first; k < times.length && times[k] < this.view.to; k += 1) {
      const x = Math.max(MARGIN.left, Math.round(frame.x(times[k])));
      const last = points[points.length - 1];
      if (last && last.x === x) {
        last.most = Math.max(last.most, live[k]);
        last.end = live[k];
      } else {
        points.push({ x, before, most: live[k], end: live[k] });
      }
      before = live[k];
    }
    const right = frame.x(Math.min(this.view.to, times.length ? times[times.length - 1] : 0));
    const trace = () => {
      let y = frame.bottom;
      pen.moveTo(points.length ? points[0].x : MARGIN.left, y);
      for (const point of points) {
        pen.lineTo(point.x, y);
        if (point.most > point.end) pen.lineTo(point.x, frame.y(point.most));
        y = frame.y(point.end);
        if (point.most > point.end) pen.lineTo(point.x + 1, frame.y(point.most));
        pen.lineTo(point.most > point.end ? point.x + 1 : point.x, y);
      }
      pen.lineTo(right, y);
    };
    pen.beginPath();
    trace();
    pen.lineTo(right, frame.bottom);
    pen.closePath();
    pen.fillStyle = colours["curve-fill"];
    pen.fill();
    pen.beginPath();
    trace();
    pen.strokeStyle = colours.curve;
    pen.lineWidth = 1.5;
    pen.stroke();
  }

  drawStep(pen, frame) {
    const left = frame.x(this.step);
    const width = Math.max(1.5, frame.x(this.step + 1) - left);
    pen.fillStyle = colours.chosen;
    pen.globalAlpha = width > 3 ? 0.16 : 0.7;
    pen.fillRect(left, MARGIN.top, width, frame.inner.height);
    pen.globalAlpha = 1;
  }
}
