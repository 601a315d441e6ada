// The head of the page, and the key to its colours.

function showSummary(model) {
  const { plan } = model;
  byId("name").textContent = printable(plan.name);
  const status = byId("status");
  status.textContent = plan.status;
  status.classList.add(plan.status);
  byId("verdict").textContent = verdict(plan);
  const cost = plan.cost !== null && plan.base_cost ? plan.cost / plan.base_cost - 1 : 0;
  const facts = [
    ["Peak", formatBytes(plan.peak), plan.peak >= 10240 ? `${formatCount(plan.peak)} B` : null],
    ["Lower bound", formatBytes(plan.lower_bound), plan.lower_bound === null ? null : `for ${scopeText(plan)}`],
    ["Gap", plan.gap === null ? "unknown" : formatShare(plan.gap), plan.gap !== null && plan.objective_value.length > 1 ? "of the first value that misses its bound" : null],
    plan.capacity !== null && ["Capacity", formatBytes(plan.capacity), plan.peak === null ? null : `${formatBytes(plan.capacity - plan.peak)} free`],
    plan.objective_value.length > 0 && [`Objective: ${plan.objective}`, plan.objective_value.map(formatNumber).join(", "), plan.objective_bound.length ? `at least ${plan.objective_bound.map(formatNumber).join(", ")}` : null],
    ["Buffers", formatCount(model.count), null],
    ["Steps", formatCount(model.steps), null],
    cost !== 0 && ["Extra cost", formatShare(cost), plan.cost_bound === null ? null : `at least ${formatShare(plan.cost_bound / plan.base_cost - 1)}`],
    plan.relations.length > 0 && ["Shared by choice", formatCount(plan.relations.length), null],
    plan.method !== null && ["Found by / proved by", printable(plan.method), null],
    plan.runtime !== null && ["Runtime", formatSeconds(plan.runtime), null],
    ...Object.entries(model.data.notes).map(([name, text]) => [printable(name), printable(text, 2000), null]),
  ];
  byId("facts").append(...facts.filter(Boolean).map(([term, value, small]) => make(
    "div", {}, make("dt", {}, term), make("dd", {}, value, small === null ? null : make("small", {}, small)),
  )));
  if (plan.message !== null) {
    byId("message").textContent = printable(plan.message, 2000);
    byId("message").hidden = false;
  }
  byId("made-by").textContent = `Made by cpplan ${model.data.cpplan}.`;
}

// What a bound holds for. A problem has steps, but no ops that could run in another order.
function scopeText({ scope, order }) {
  return scope !== "given order" ? scope : order.length ? "this order" : "these lifespans";
}

function verdict(plan) {
  const { status, peak, lower_bound: bound, scope, gap, objective_value: value, cost, cost_bound: leastCost } = plan;
  const everywhere = { "every order": "in any order", "every splitting": "in any pieces and order" };
  const where = everywhere[scope] ?? (plan.order.length ? "in this order" : "with these lifespans");
  if (status === "infeasible") return "Proved not to fit.";
  if (peak === null) return "No plan was found that fits, and none was ruled out.";
  if (status === "optimal" && peak === bound) return `No plan is smaller ${where}: the peak meets the lower bound.`;
  if (status === "optimal" && leastCost !== null && cost === leastCost) return "No plan within the capacity costs less.";
  if (status === "optimal") return "No plan is better: the objective meets its bound.";
  if (value.length || bound === null) return "A verified plan; not proved best.";
  return `A verified plan. None ${where} is smaller by more than ${formatBytes(peak - bound)} (${formatShare(gap)}).`;
}

function showLegend(model) {
  const present = new Set(model.fill);
  const texts = [
    "up to 1/64 of the largest", "to 1/8", "to 1/2", "largest", "input", "output", "constant", "workspace",
  ];
  const entries = FILLS.map((fill, k) => [fill, texts[k], present.has(k), false]);
  entries.push(["tint-1", "computed again", model.again.some(Boolean), true]);
  const canvases = [];
  byId("legend").append(...entries.filter(([, , shown]) => shown).map(([fill, text, , hatched]) => {
    const canvas = make("canvas", { "aria-hidden": "true" });
    canvases.push([canvas, fill, hatched]);
    return make("li", {}, canvas, text);
  }));
  return () => canvases.forEach(([canvas, fill, hatched]) => {
    const sharp = sharpen(canvas);
    if (sharp === null) return;
    sharp.pen.fillStyle = colours[fill];
    sharp.pen.fillRect(0, 0, sharp.width, sharp.height);
    if (hatched) hatch(sharp.pen, 0, 0, sharp.width, sharp.height);
  });
}
