// Pictures do not follow the style sheet by themselves: they are drawn again with every change of
// the light, the paper and their size.

function keepDrawn(element, draw) {
  const again = () => {
    readColours();
    draw();
  };
  for (const change of [dark, printing]) change.addEventListener("change", again);
  for (const moment of ["beforeprint", "afterprint"]) window.addEventListener(moment, again);
  new ResizeObserver(draw).observe(element);
  again();
}
