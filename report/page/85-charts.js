// How incumbent and bound came together over time: one small step chart for each tier, with the same numbers as a table.

function buildCharts() {
  const root = byId("search-body");
  const found = D.search.filter((each) => each.points.length);
  if (!found.length) return void root.append(empty(D.kind === "Snapshot" ? "Nothing was searched." : "The result does not record how the search went."));
  root.append(h("div", { class: "charts" }, found.map(chart)));
}

function chart({ label, points }) {
  const [wide, high, left, right, top, low] = [360, 150, 4, 84, 14, 20];
  const last = points[points.length - 1];
  if (points.length === 1) {
    const found = last[2] === null ? "no bound" : last[1] === last[2] ? "✓ the bound" : `bound ${number(last[2])}`;
    return h("figure", null, h("figcaption", null, name(label)), h("p", null, `${number(last[1])} after ${seconds(last[0])}, ${found}`));
  }
  const end = Math.max(last[0], 1e-3);
  const values = points.flatMap(([, value, bound]) => (bound === null ? [value] : [value, bound]));
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const span = most - least || 1;
  const x = (time) => left + (time / end) * (wide - left - right);
  const y = (value) => (most === least ? (top + high - low) / 2 : top + ((most - value) / span) * (high - top - low));
  const line = (column, className) => {
    let path = "";
    for (const point of points) {
      if (point[column] === null) continue;
      const [px, py] = [x(point[0]).toFixed(1), y(point[column]).toFixed(1)];
      path += path ? `H${px}V${py}` : `M${px},${py}`;
    }
    return path && svg("path", { d: `${path}H${(wide - right).toFixed(1)}`, class: className });
  };
  const gap = last[2] !== null && Math.abs(y(last[1]) - y(last[2])) < 14;
  const end1 = y(last[1]) + (gap && last[2] !== last[1] ? (last[1] < last[2] ? 8 : -8) : 0);
  const met = last[2] === last[1];
  const labels = [svg("text", { x: wide - right + 6, y: end1 + 4, class: "strong" }, met ? `${number(last[1])} ✓` : number(last[1]))];
  if (!met && last[2] !== null) labels.push(svg("text", { x: wide - right + 6, y: y(last[2]) + (gap ? (last[1] < last[2] ? -4 : 12) : 4) }, `≤ ${number(last[2])}`));
  const text = `${label}: ${number(last[1])} after ${seconds(end)}${last[2] === null ? ", no bound" : met ? ", which is the bound" : `, bound ${number(last[2])}`}`;
  return h("figure", null, h("figcaption", null, name(label)),
    svg("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": text }, svg("line", { x1: left, x2: wide - right, y1: high - low, y2: high - low, class: "axis" }),
      line(2, "bound"), line(1, "value"), svg("circle", { cx: wide - right, cy: y(last[1]), r: 3 }), labels,
      svg("text", { x: x(points[0][0]), y: y(points[0][1]) - 5 }, number(points[0][1])),
      svg("text", { x: left, y: high - 6 }, "0 s"), svg("text", { x: wide - right, y: high - 6, class: "end" }, seconds(end))),
    later("Numbers", () => more(points, 30, "points", (some) => table(`Search of ${label}`, [["Seconds", "num"], ["Incumbent", "num"], ["Bound", "num"]],
      some.map(([time, value, bound]) => [time.toFixed(2), number(value), bound === null ? "–" : number(bound)])))));
}
