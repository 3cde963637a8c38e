// Incumbent and bound over time: one small step chart per tier, with the same numbers as a table.

function buildCharts() {
  const root = byId("search-body");
  const found = D.search.filter((each) => each.points.length);
  if (!found.length) return void root.append(empty(D.kind === "Snapshot" ? "Nothing was searched." : "The result has no record of the search."));
  root.append(h("div", { class: "charts" }, found.map(chart)));
}

// Two label heights, far enough apart to be readable.
function apart(first, second) {
  const near = LINE - Math.abs(first - second);
  const way = first <= second ? 1 : -1;
  return near > 0 ? [first - (way * near) / 2, second + (way * near) / 2] : [first, second];
}

const LINE = 14;

// The first values are left of the lines and the last ones right, so that no number overlaps a line.
function chart({ label, fewer, points }) {
  const limit = (value) => `${fewer ? "≥" : "≤"} ${number(value)}`;
  const last = points[points.length - 1];
  if (points.length === 1) {
    const found = last[2] === null ? "no bound" : last[1] === last[2] ? "✓ the bound" : `bound ${limit(last[2])}`;
    return h("figure", null, h("figcaption", null, name(label)), h("p", null, `${number(last[1])} after ${seconds(last[0])}, ${found}`));
  }
  const end = Math.max(last[0], 1e-3);
  const bounded = points.find((point) => point[2] !== null);
  const met = last[2] === last[1];
  const texts = [number(points[0][1]), bounded ? limit(bounded[2]) : "", met ? `${number(last[1])} ✓` : number(last[1]), met || last[2] === null ? "" : limit(last[2])];
  const room = (some) => 12 + 7.2 * Math.max(...some.map((text) => text.length));
  const [wide, high, left, right, top, low] = [360, 150, room(texts.slice(0, 2)), Math.max(room(texts.slice(2)), 40), 14, 20];
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
  const side = ([value, bound], [of, under], at, className) => {
    const [one, two] = bound ? apart(y(of), y(under)) : [y(of), 0];
    return [svg("text", { x: at, y: one + 4, class: `strong ${className}` }, value), bound && svg("text", { x: at, y: two + 4, class: className }, bound)];
  };
  const labels = [side(texts.slice(0, 2), [points[0][1], bounded && bounded[2]], left - 6, "end"), side(texts.slice(2), last.slice(1), wide - right + 6, "")];
  const text = `${label}: ${number(last[1])} after ${seconds(end)}${last[2] === null ? ", no bound" : met ? ", which is the bound" : `, bound ${limit(last[2])}`}`;
  return h("figure", null, h("figcaption", null, name(label)),
    svg("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": text }, svg("line", { x1: left, x2: wide - right, y1: high - low, y2: high - low, class: "axis" }),
      line(2, "bound"), line(1, "value"), svg("circle", { cx: wide - right, cy: y(last[1]), r: 3 }), labels,
      svg("text", { x: left, y: high - 6 }, "0 s"), svg("text", { x: wide - right, y: high - 6, class: "end" }, seconds(end))),
    later("Numbers", () => more(points, 30, "points", (some) => table(`Search of ${label}`, [["Seconds", "num"], ["Best so far", "num"], ["Best possible", "num"]],
      some.map(([time, value, bound]) => [time.toFixed(2), number(value), bound === null ? "–" : number(bound)])))));
}
