// The four colourings. A class names the colour; the style sheet has a value for each theme. Utilisation and priority are ordered by
// lightness, workloads carry a letter, changes a pattern: no information is in the hue alone.

const BINS = [20, 40, 60, 75, 90, 100];
const LETTERS = "ABCDEFGH";

const utilisationClass = (share) => {
  const bin = BINS.findIndex((edge, i) => share < edge || (i === BINS.length - 1 && share <= edge));
  return `u${bin < 0 ? BINS.length : bin}`;
};

const utilisationOf = (n) => percent(usageAt(state.at)[state.measure][n], capacity(state.measure, n));

// The workloads with the largest total requests get a letter each; the others share one colour.
const lettered = once(() => {
  const sum = new Float64Array(D.workloads.length);
  const add = (w, shape, count) => {
    if (w >= 0) sum[w] += D.shapes[shape].cpu * count;
  };
  if (grouped && D.groups) D.groups.workload.forEach((w, g) => add(w, D.groups.shape[g], D.groups.count[D.views.length - 1][g]));
  else P.workload.forEach((w, p) => add(w, P.shape[p], 1));
  const order = [...sum.keys()].sort((a, b) => sum[b] - sum[a] || a - b).slice(0, LETTERS.length);
  return new Map(order.map((w, i) => [w, i]));
});
const letterOf = (w) => lettered().get(w) ?? LETTERS.length;

// Priorities in ascending order, spread over the six steps of the scale.
const priorityOrder = once(() => [...new Set(D.priorities)].sort((a, b) => a - b));
const priorityBins = () => Math.min(6, priorityOrder().length);
const priorityBin = once(() => new Map(priorityOrder().map((value, i) => {
  const bins = priorityBins();
  const bin = Math.floor((i * bins) / priorityOrder().length);
  return [value, bins < 2 ? 2 : Math.round((bin * 5) / (bins - 1))];
})));
const priorityClass = (index) => `u${index < 0 ? 0 : priorityBin().get(D.priorities[index])}`;

const CHANGES = ["c0", "c1", "c2", "c3", "c0", "c0", "c4"]; // by STATES

function cellClass(p, nodeClass) {
  if (state.colour === "workload") return `w${letterOf(P.workload[p])}`;
  if (state.colour === "priority") return priorityClass(P.priority[p]);
  return state.colour === "change" ? CHANGES[P.state[p]] : nodeClass;
}

// A tile represents all pods of its node: the workload or priority with the largest requests, and gains and losses.
function tileClass(n) {
  if (state.colour === "change") return `t${differences(state.at)[n]}`;
  if (state.colour === "utilisation") return utilisationClass(utilisationOf(n));
  const parts = grouped ? groupsOn(n, state.at) : [...podsOn(n, state.at)].map((p) => ({
    workload: P.workload[p], shape: P.shape[p], priority: P.priority[p], count: 1,
  }));
  if (!parts.length) return "none";
  const sums = new Map();
  for (const part of parts) sums.set(part[state.colour], (sums.get(part[state.colour]) || 0) + D.shapes[part.shape][state.measure] * part.count);
  const [most] = [...sums].reduce((best, each) => (each[1] > best[1] ? each : best));
  return state.colour === "priority" ? priorityClass(most) : `w${letterOf(most)}`;
}

function legend() {
  const key = (className, text) => h("li", null, h("span", { "aria-hidden": "true" }, TILES ? h("span", { class: `tile sample ${className}` }) : swatch(className)), text);
  if (state.colour === "utilisation") {
    const text = [0, ...BINS].map((low, i) => (i === BINS.length ? "over 100%" : `${low}–${BINS[i]}%`));
    return text.map((each, i) => key(`u${i}`, i ? each : "under 20%"));
  }
  if (state.colour === "priority") {
    const bins = new Map();
    for (const value of priorityOrder()) bins.set(priorityBin().get(value), [...(bins.get(priorityBin().get(value)) || []), value]);
    return [...bins].map(([bin, values]) => {
      const low = number(values[0]);
      return key(`u${bin}`, values.length > 1 ? `${low} to ${number(values[values.length - 1])}` : low);
    });
  }
  if (state.colour === "change") {
    if (TILES) return ["unchanged", "gains pods", "loses pods", "gains and loses"].map((text, i) => key(`t${i}`, text));
    const used = new Set(P.state.map((each) => CHANGES[each]));
    const names = { c0: "unchanged", c1: STATES[1], c2: STATES[2], c3: STATES[3], c4: STATES[6] };
    return Object.entries(names).filter(([c]) => c === "c0" || used.has(c)).map(([c, text]) => key(c, text));
  }
  const items = [...lettered()].map(([w, i]) => h("li", null, h("button", {
    class: "legend-button",
    "data-w": w,
    onclick: () => markWorkload(w),
  }, h("span", { "aria-hidden": "true" }, swatch(`w${i}`, LETTERS[i])), name(workloadName(w)))));
  if (D.workloads.length > LETTERS.length || P.workload.includes(-1)) items.push(key(`w${LETTERS.length}`, "other pods"));
  return items;
}

// Rebuilt only for another colouring, so that a pressed button keeps the focus.
function showLegend() {
  const root = byId("legend");
  if (root.dataset.colour !== state.colour) root.replaceChildren(...legend());
  root.dataset.colour = state.colour;
  root.querySelectorAll("[data-w]").forEach((button) => button.setAttribute("aria-pressed", String(Boolean(state.mark && state.mark.key === `workload ${button.dataset.w}`))));
}

const swatch = (className, letter) => svg("svg", { viewBox: "0 0 14 14", class: "swatch" },
  svg("rect", { width: 14, height: 14, class: className }),
  letter && svg("text", { x: 7, y: 7, dy: "0.35em", class: `letter ${className}` }, letter));
