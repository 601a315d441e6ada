// Wheel, drag, fingers and keys: what moves the view, and what looks at a point or chooses it.

const ZOOM_STEP = 0.8;
const DRAG_BEGINS = 4;

// `chart` has frame(); `panel` is the number of its pool, or null where only steps move.
function listen(chart, panel, { hover, leave, choose, key }) {
  const { canvas, view } = chart;
  const point = (event) => {
    const box = canvas.getBoundingClientRect();
    const frame = chart.frame(Math.round(box.width), Math.round(box.height));
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    return {
      x, y, frame, event,
      across: clamp((x - MARGIN.left) / frame.inner.width, 0, 1),
      upwards: clamp((frame.bottom - y) / frame.inner.height, 0, 1),
    };
  };
  canvas.addEventListener("wheel", (event) => {
    // At its widest the page scrolls on, as it would over a picture.
    const away = event.deltaY > 0;
    if (away && view.isWhole && event.deltaX === 0) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY) && !event.shiftKey) {
      view.move(event.deltaX / Math.max(1, canvas.clientWidth), 0, panel);
      return;
    }
    const amount = event.deltaY || event.deltaX;  // Shift turns a wheel sideways on some systems.
    const at = point(event);
    const notches = clamp(amount * (event.deltaMode === 1 ? 33 : 1), -240, 240) / 100;
    view.zoom(ZOOM_STEP ** -notches, at.across, at.upwards, panel, { steps: !event.altKey, bytes: !event.shiftKey });
  }, { passive: false });

  let down = null;
  const fingers = new Map();
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    fingers.set(event.pointerId, event);
    down = { x: event.clientX, y: event.clientY, begunX: event.clientX, begunY: event.clientY, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (fingers.size === 2 && fingers.has(event.pointerId)) {
      const [before, after] = moveFinger(fingers, event);
      const at = point(event);
      if (before > 0 && after > 0) view.zoom(before / after, at.across, at.upwards, panel);
      down.moved = true;
      return;
    }
    if (down === null) {
      hover(point(event));
      return;
    }
    const far = Math.hypot(event.clientX - down.begunX, event.clientY - down.begunY);
    if (!down.moved && far < DRAG_BEGINS) return;
    down.moved = true;
    canvas.classList.add("dragging");
    leave();
    const { frame } = point(event);
    view.move((down.x - event.clientX) / frame.inner.width, (event.clientY - down.y) / frame.inner.height, panel);
    [down.x, down.y] = [event.clientX, event.clientY];
  });
  const release = (event) => {
    if (down !== null && !down.moved && event.type === "pointerup") choose(point(event));
    fingers.delete(event.pointerId);
    down = null;
    canvas.classList.remove("dragging");
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", leave);

  const keys = {
    "+": () => view.zoom(ZOOM_STEP ** 2, 0.5, 0.5, panel),
    "=": () => view.zoom(ZOOM_STEP ** 2, 0.5, 0.5, panel),
    "-": () => view.zoom(ZOOM_STEP ** -2, 0.5, 0.5, panel),
    "0": () => view.showAll(),
    ArrowLeft: () => view.move(-0.1, 0, panel),
    ArrowRight: () => view.move(0.1, 0, panel),
    ArrowUp: () => view.move(0, 0.1, panel),
    ArrowDown: () => view.move(0, -0.1, panel),
    ...key,
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const pressed = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (!Object.hasOwn(keys, pressed)) return;
    event.preventDefault();
    keys[pressed](event);
  });
}

// How far apart two fingers were before one of them moved, and are after.
function moveFinger(fingers, event) {
  const apart = () => {
    const [a, b] = [...fingers.values()];
    return Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
  };
  const before = apart();
  fingers.set(event.pointerId, event);
  return [before, apart()];
}
