// Live bytes over the same steps as the maps: their maximum is what any packing needs.

class LiveChart {
  constructor(model, view, canvas) {
    Object.assign(this, { model, view, canvas });
    this.step = model.fullest;
    this.again = model.stepsAgain();
    const { plan } = model;
    this.levels = plan.pools.length > 1
      ? [["peak", null]]
      : [["capacity", plan.capacity ?? plan.pools[0].capacity], ["peak", plan.peak], ["bound", plan.lower_bound]];
    const most = model.profile.live.reduce((a, b) => Math.max(a, b), 1);
    this.top = 1.08 * Math.max(most, ...this.levels.map(([key, value]) => (key === "capacity" ? 0 : value || 0)));
    this.levels = this.levels.filter(([, value]) => value !== null && value <= this.top);
  }

  frame(width, height) {
    return stepFrame(this.view, width, height, 0, this.top);
  }

  draw() {
    drawFramed(this, (pen, frame) => {
      this.drawCurve(pen, frame);
      this.drawStep(pen, frame);
      this.drawAgain(pen, frame);
    });
  }

  // Of the changes that fall on one column of pixels, the most bytes are drawn.
  drawCurve(pen, frame) {
    const { times, live } = this.model.profile;
    const first = Math.max(0, lastAtMost(times, this.view.from));
    const points = [];
    for (let k = first; k < times.length && times[k] < this.view.to; k += 1) {
      const x = Math.max(MARGIN.left, Math.round(frame.x(times[k])));
      const last = points[points.length - 1];
      if (last && last.x === x) {
        last.most = Math.max(last.most, live[k]);
        last.end = live[k];
      } else {
        points.push({ x, most: live[k], end: live[k] });
      }
    }
    const right = frame.x(Math.min(this.view.to, times.length ? times[times.length - 1] : 0));
    const trace = () => {
      // What began before the first step seen does not rise there.
      let y = first < times.length && times[first] < this.view.from ? frame.y(live[first]) : frame.bottom;
      pen.lineTo(points.length ? points[0].x : MARGIN.left, y);
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
    pen.moveTo(points.length ? points[0].x : MARGIN.left, frame.bottom);
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

  // Small triangles where an op runs that has run before.
  drawAgain(pen, frame) {
    pen.fillStyle = colours.again;
    let last = -Infinity;
    for (const step of this.again) {
      const x = frame.x(step + 0.5);
      if (x < MARGIN.left || x - last < 2) continue;
      if (x > MARGIN.left + frame.inner.width) break;
      pen.beginPath();
      pen.moveTo(x, frame.bottom - 9);
      pen.lineTo(x - 4, frame.bottom - 1);
      pen.lineTo(x + 4, frame.bottom - 1);
      pen.fill();
      last = x;
    }
  }
}
