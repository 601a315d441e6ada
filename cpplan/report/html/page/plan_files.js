// The plan, to go on with: its own JSON, which `cpplan show` reads, and a table.

function offerDownloads(model) {
  const base = fileBase(model.plan.name, "plan");
  byId("download-json").addEventListener("click", () => save(`${base}.plan.json`, "application/json", planJson(model)));
  byId("download-csv").addEventListener("click", () => save(`${base}.csv`, "text/csv", planCsv(model)));
}

function planJson({ plan, name, size, lower, upper, offset, pool }) {
  const buffers = name.map((each, k) => ({
    name: each, size: size[k], lower: lower[k], upper: upper[k],
    offset: offset === null ? null : offset[k], pool: plan.pools[pool[k]].name,
  }));
  return `${JSON.stringify({ ...plan, buffers }, null, 1)}\n`;
}

function planCsv({ plan, name, size, lower, upper, offset, pool, role, again }) {
  const rows = name.map((each, k) => [
    each, size[k], lower[k], upper[k], offset === null ? "" : offset[k], plan.pools[pool[k]].name, ROLES[role[k]], again[k],
  ]);
  return csvText([["name", "size", "lower", "upper", "offset", "pool", "kind", "again"], ...rows]);
}
