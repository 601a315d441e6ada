// The document, touched in one way only: names become text nodes, never markup.

function byId(id) {
  return document.getElementById(id);
}

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function named(tag, name, properties = {}) {
  return make(tag, { class: "name", dir: "ltr", ...properties }, ...breakable(printable(name)));
}

// A long name goes on in the next line after one of its own marks, if it has any.
function breakable(text) {
  return text.split(/(?<=[/_.:-])(?=[^/_.:-])/).flatMap((part, k) => (k === 0 ? [part] : [make("wbr"), part]));
}

function pairs(entries) {
  const list = make("dl", { class: "pairs" });
  for (const [term, value] of entries) {
    if (value === null || value === undefined) continue;
    list.append(make("dt", {}, term), make("dd", {}, value));
  }
  return list;
}

// A canvas as sharp as the screen (or paper) is; null while it has no size.
function sharpen(canvas) {
  const box = canvas.getBoundingClientRect();
  const width = Math.round(box.width);
  const height = Math.round(box.height);
  if (width < 1 || height < 1) return null;
  const density = Math.max(window.devicePixelRatio || 1, printing.matches ? 2 : 1);
  const [wide, high] = [Math.round(width * density), Math.round(height * density)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(density, 0, 0, density, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.direction = "ltr";
  pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  return { pen, width, height };
}
