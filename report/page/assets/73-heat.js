// Failures as a heat map: a tile for each node or domain that can fail, with sign, number and shade for the effect, and a matrix of
// pairs. Arrow keys move, Enter or a click shows details.

const OUTCOMES = ["not examined", "no pods affected", "all come back", "unknown", "pods stay pending"];
const heatClass = (outcome, pending, worst) => (outcome < 4 ? `f${outcome}` : `f4 p${Math.min(2, Math.floor((3 * (pending - 1)) / Math.max(1, worst)))}`);
const heatSign = (outcome, pending) => ["", "·", "✓", "?", number(pending)][outcome];

function heatParts(H) {
  const worst = Math.max(0, ...H.cells.map((cell) => cell[3]));
  const detail = h("div", { class: "card heat-detail", role: "status", hidden: true });
  const grid = heatGrid(H, worst, (i) => showFailures(H, detail, (failed) => failed.includes(i), i));
  return [
    h("ul", { class: "heat-legend", "aria-label": "Legend of failures" }, heatLegend(H)),
    H.atOnce > 1 && h("p", { class: "dim" }, `Each tile shows the worst of all failures of ${H.atOnce} at once that include it.`),
    grid, H.pairs && H.pairs.length > 0 ? later("Every pair", () => heatMatrix(H, worst)) : null, detail, badFailures(H, detail),
  ];
}

function heatLegend(H) {
  const used = new Set(H.cells.map((cell) => cell[2]));
  return OUTCOMES.map((text, i) => (used.has(i) ? h("li", null, h("span", { class: `heat-cell sample ${heatClass(i, 1, 1)}`, "aria-hidden": "true" }, i === 4 ? "n" : heatSign(i, 0)), text) : null)).filter(Boolean);
}

const cellText = (cell) => `${cell[0]}: ${cell[2] === 4 ? `at least ${pods(cell[3])} of ${number(cell[4])} stay pending` : `${OUTCOMES[cell[2]]}${cell[4] ? `, ${pods(cell[4])}` : ""}`}`;

function heatGrid(H, worst, open) {
  const box = h("div", { class: "heat", role: "toolbar", "aria-label": H.fail === "node" ? "Nodes that fail" : "Domains that fail" });
  const cells = [];
  let group = null;
  let row = null;
  H.cells.forEach((cell, i) => {
    if (!row || cell[1] !== group) {
      group = cell[1];
      row = h("div", { class: "heat-row" });
      box.append(group ? h("div", { class: "heat-group" }, h("h4", null, name(group)), row) : row);
    }
    const wide = H.cells.length <= 40;
    const button = h("button", {
      class: `heat-cell ${wide ? "wide " : ""}${heatClass(cell[2], cell[3], worst)}`, tabindex: i ? -1 : 0, "aria-label": cellText(cell), title: cellText(cell), onclick: () => open(i),
    }, wide ? h("span", { class: "heat-name" }, name(shorten(cell[0], 24))) : null, heatSign(cell[2], cell[3]));
    cells.push(button);
    row.append(button);
  });
  box.addEventListener("keydown", (event) => {
    const from = cells.indexOf(document.activeElement);
    const to = { ArrowRight: from + 1, ArrowLeft: from - 1, ArrowDown: below(cells, from, 1), ArrowUp: below(cells, from, -1), Home: 0, End: cells.length - 1 }[event.key];
    if (from < 0 || to === undefined) return;
    event.preventDefault();
    const next = cells[Math.max(0, Math.min(cells.length - 1, to))];
    cells[from].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  return box;
}

// The tile nearest in the next line of tiles.
function below(cells, from, way) {
  const at = cells[from].getBoundingClientRect();
  let line = null;
  let best = from;
  for (let i = from + way; i >= 0 && i < cells.length; i += way) {
    const box = cells[i].getBoundingClientRect();
    if (Math.abs(box.top - at.top) < 2) continue;
    if (line === null) line = box.top;
    if (Math.abs(box.top - line) > 2) break;
    if (best === from || Math.abs(box.left - at.left) < Math.abs(cells[best].getBoundingClientRect().left - at.left)) best = i;
  }
  return best;
}

const failedNames = (H, failed) => failed.map((i, k) => [k ? " and " : "", H.fail === "node" ? nodeLink(H.cells[i][0]) : name(H.cells[i][0])]);

// Details of the failures that include a domain.
function showFailures(H, detail, wanted, i) {
  const cell = i === undefined ? null : H.cells[i];
  const examples = H.counterexamples.filter((each) => wanted(each.failed));
  const others = H.failures.filter(([failed]) => wanted(failed) && !examples.some((each) => String(each.failed) === String(failed)));
  const decided = { nothing: "no pods affected", bound: "decided by a bound", composition: "combined from single failures", search: "places found by construction", solver: "decided by the solver" };
  detail.hidden = false;
  detail.replaceChildren(...[
    cell && h("h3", null, name(cell[0])),
    cell && h("p", null, cellText(cell).slice(cell[0].length + 2), H.atOnce === 1 && cell[5] ? h("span", { class: "dim" }, ` · ${decided[cell[5]] || cell[5]}`) : null,
      H.atOnce > 1 ? h("span", { class: "dim" }, ` · ${plural(cell[6], "failure")}`) : null, H.fail === "node" ? [" · ", nodeLink(cell[0])] : null),
    more(examples, 5, "counterexamples", (some) => some.map((each) => counterexample(H, each))),
    others.length > 0 && more(others, 10, "failures", (some) => table("Other failures", ["Failure", "Outcome", ["Displaced", "num"]],
      some.map(([failed, outcome, pending, displaced]) => [failedNames(H, failed), outcome === 4 ? `at least ${pods(pending)} pending` : OUTCOMES[outcome], number(displaced)]))),
  ].filter(Boolean));
  detail.scrollIntoView({ block: "nearest" });
}

function counterexample(H, each) {
  const hidden = each.count - each.pods.length;
  return h("article", { class: "card" },
    h("h3", null, failedNames(H, each.failed), h("span", { class: "dim" }, ` · at least ${pods(each.least)} stay${each.least === 1 ? "s" : ""} pending`)),
    later(`Pods that stay pending in the best answer (${number(each.count)})`, () => h("ul", { class: "plain columns" }, each.pods.map((pod) => h("li", null, name(pod))), hidden > 0 ? h("li", { class: "dim" }, `and ${number(hidden)} more`) : null)),
    each.cause ? h("div", null, h("h4", null, "Why"), causeOf(each.cause)) : null,
    each.consequences.length ? h("div", null, h("h4", null, "Other effects"), h("ul", { class: "rules" }, each.consequences.map(([, object, message]) => h("li", null, name(object), ": ", name(message))))) : null);
}

function badFailures(H, detail) {
  if (!H.failures.length) return null;
  return [h("h3", null, "Failures that are not survived"), more(H.failures, 10, "failures", (some) => table("Failures that are not survived", ["Failure", "Outcome", ["Displaced", "num"], ""],
    some.map(([failed, outcome, pending, displaced]) => [failedNames(H, failed), outcome === 4 ? `at least ${pods(pending)} pending` : OUTCOMES[outcome], number(displaced),
      h("button", { class: "link screen", onclick: () => showFailures(H, detail, (other) => String(other) === String(failed)) }, "details")]))),
  H.more ? h("p", { class: "dim" }, `${number(H.more)} more are left out`) : null];
}

// Pairs of failures as rows and columns.
function heatMatrix(H, worst) {
  const n = H.cells.length;
  const found = new Map(H.pairs.map(([i, j, outcome, pending]) => [i * n + j, [outcome, pending]]));
  const at = (i, j) => found.get(Math.min(i, j) * n + Math.max(i, j));
  return h("div", { class: "scroll", role: "group", "aria-label": "Every pair", tabindex: 0 }, h("table", { class: "matrix" },
    h("caption", { class: "hidden" }, "Effect of each pair of failures"),
    h("thead", null, h("tr", null, h("td"), H.cells.map((cell) => h("th", { scope: "col" }, name(shorten(cell[0], 16)))))),
    h("tbody", null, H.cells.map((cell, i) => h("tr", null, h("th", { scope: "row" }, name(shorten(cell[0], 24))), H.cells.map((_, j) => {
      const pair = i === j ? null : at(i, j);
      return pair ? h("td", { class: heatClass(pair[0], pair[1], worst), title: `${cell[0]} and ${H.cells[j][0]}` }, heatSign(pair[0], pair[1])) : h("td", { class: "f0" });
    }))))));
}
