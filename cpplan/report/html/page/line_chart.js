// Lines over an axis, for what does not move: the order before and after, the search, a profile.

// `series`: { name, colour, dash, points: [[x, y], …], stairs }, `y` null for a break.
// An axis: { low, high, format | inBytes, title, log, whole }. What lies beyond its ends is cut off.
function drawLineChart(canvas, { series, x, y, left = 66 }) {
  const sharp = sharpen(canvas);
  if (sharp === null || sharp.width <= 2 * left) return;
  const { pen, width, height } = sharp;
  const right = width - 12;
  const [top, bottom] = [drawKey(pen, series, left, right, height / 3), height - 38];
  const along = (value) => (x.log ? Math.log(value / x.low) / Math.log(x.high / x.low) : (value - x.low) / Math.max(1e-12, x.high - x.low));
  const across = (value) => left + along(value) * (right - left);
  const up = (value) => bottom - ((value - y.low) / Math.max(1e-12, y.high - y.low)) * (bottom - top);
  pen.fillStyle = colours.map;
  pen.fillRect(left, top, right - left, bottom - top);
  pen.fillStyle = colours.soft;
  pen.strokeStyle = colours.grid;
  pen.lineWidth = 1;
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  const heights = ticks(y.low, y.high, (bottom - top) / 40, y.inBytes, y.whole);
  const format = y.inBytes ? byteFormat(heights) : y.format;
  for (const value of heights) {
    const at = Math.round(up(value)) + 0.5;
    line(pen, left, at, right, at);
    pen.fillText(format(value), left - 7, at, left - 8);
  }
  pen.textBaseline = "top";
  pen.textAlign = "center";
  for (const value of x.log ? logTicks(x.low, x.high, (right - left) / 110) : ticks(x.low, x.high, (right - left) / 110, false, x.whole)) {
    const at = Math.round(across(value)) + 0.5;
    line(pen, at, bottom, at, bottom + 4);
    pen.fillText(x.format(value), at, bottom + 6);
  }
  pen.fillText(x.title, (left + right) / 2, bottom + 22);
  pen.save();
  pen.beginPath();
  pen.rect(left, top - 1, right - left, bottom - top + 2);
  pen.clip();
  for (const each of series) drawSeries(pen, each, across, up);
  pen.restore();
}

// Powers of ten; with their doubles and halves, or as on an even axis, where these are too few.
function logTicks(low, high, most) {
  const powers = [];
  for (let k = Math.floor(Math.log10(low)); k <= Math.log10(high); k += 1) powers.push(k);
  const within = (factors) => powers.flatMap((k) => factors.map((factor) => Number(`${factor}e${k}`)))
    .filter((value) => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9));
  const [tens, more] = [within([1]), within([1, 2, 5])];
  if (tens.length >= 3) return tens;
  return more.length >= 3 ? more : ticks(low, high, most);
}

function line(pen, x, y, toX, toY) {
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(toX, toY);
  pen.stroke();
}

// A column of pixels gets at most its first, lowest, highest and last value.
function drawSeries(pen, { points, colour, dash = [], stairs = true }, across, up) {
  pen.strokeStyle = colour;
  pen.lineWidth = 1.8;
  pen.setLineDash(dash);
  pen.beginPath();
  let column = null;
  let [least, most, last] = [0, 0, null];
  const flush = () => {
    if (column === null) return;
    if (least < most) {
      pen.lineTo(column, most);
      pen.lineTo(column, least);
    }
    pen.lineTo(column, last);
  };
  for (const [x, value] of points) {
    if (value === null) {
      flush();
      column = null;
      last = null;
      continue;
    }
    const [at, y] = [Math.round(across(x)), up(value)];
    if (at !== column) {
      flush();
      if (last === null) pen.moveTo(at, y);
      else if (stairs) pen.lineTo(at, last);
      [column, least, most] = [at, y, y];
    }
    least = Math.min(least, y);
    most = Math.max(most, y);
    last = y;
  }
  flush();
  pen.stroke();
  pen.setLineDash([]);
}

// Names of the lines, on as many rows as they need and there are; returns where the picture may begin.
function drawKey(pen, series, left, right, lowest) {
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  pen.lineWidth = 2;
  let [x, y] = [left, 11];
  for (const [k, { name, colour, dash = [] }] of series.entries()) {
    const room = right - left - 29;
    const wide = 29 + Math.min(pen.measureText(name).width, room) + 22;
    if (x > left && x + wide > right) [x, y] = [left, y + 17];
    pen.fillStyle = colours.soft;
    if (y + 17 > lowest && k < series.length - 1) {
      pen.fillText(`and ${series.length - k} more`, x, y + 0.5, right - x);
      break;
    }
    pen.strokeStyle = colour;
    pen.setLineDash(dash);
    line(pen, x, y, x + 22, y);
    pen.setLineDash([]);
    pen.fillText(name, x + 29, y + 0.5, room);
    x += wide;
  }
  return y + 15;
}
