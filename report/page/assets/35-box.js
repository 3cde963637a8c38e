// The inside of a node on the map: a tank as high as the node's capacity, filled with its pods, areas proportional to their requests.

const WIDE = 120;
const HIGH = 64;
const LEAST = 5; // height of pods that request nothing
const LETTER = { large: 5, medium: 6.5, small: 7.5 }; // as in the style sheet; cells of this height and width get a letter

function fillTank(target, list, x, y, width, height, full, nodeClass, own) {
  if (!list.length) return;
  const sorted = list.map((p) => [need(state.measure, p), p]).sort((a, b) => b[0] - a[0] || a[1] - b[1]);
  const sum = sorted.reduce((total, [value]) => total + value, 0);
  const level = Math.max(LEAST, full > 0 ? Math.min(1, sum / full) * height : height);
  const least = Math.max(1, sum / 300);
  const cells = treemap(sorted.map(([value]) => Math.max(value, least)), x, y + height - level, width, level);
  const letter = LETTER[byId("map").dataset.size];
  const last = []; // outlined cells are drawn above their neighbours
  cells.forEach(([cx, cy, w, high], i) => {
    const p = sorted[i][1];
    const colour = cellClass(p, nodeClass);
    const className = `cell ${colour}${hit(p) ? " hit" : ""}${own.has(p) ? " now" : ""}`;
    const outlined = own.has(p) || (state.mark && hit(p));
    (outlined ? last : target).push(svg("rect", { x: cx.toFixed(2), y: cy.toFixed(2), width: w.toFixed(2), height: high.toFixed(2), class: className, "data-p": p }));
    if (state.colour === "workload" && (!state.mark || hit(p)) && w > letter && high > letter && colour !== `w${LETTERS.length}`) {
      (outlined ? last : target).push(svg("text", { x: (cx + w / 2).toFixed(1), y: (cy + high / 2).toFixed(1), dy: "0.35em", class: `letter ${colour}` }, LETTERS[letterOf(P.workload[p])]));
    }
  });
  target.push(...last);
}

// The NUMA zone of a pod: its index if all containers have the same single zone, otherwise -1.
function zoneOf(p, zones) {
  const found = P.zones[p];
  if (!found || !found.length) return -1;
  const names = new Set(found.flatMap(([, each]) => each));
  return names.size === 1 ? zones.findIndex((zone) => zone.name === [...names][0]) : -1;
}

function drawTank(n, target) {
  const children = [svg("rect", { width: WIDE, height: HIGH, class: "tank" })];
  const list = [...podsOn(n, state.at)];
  const full = capacity(state.measure, n);
  const nodeClass = utilisationClass(utilisationOf(n));
  const own = ofWave();
  const zones = (D.nodes.numa || {})[n];
  if (!zones || zones.length < 2) {
    fillTank(children, list, 0, 0, WIDE, HIGH, full, nodeClass, own);
  } else {
    // Zones side by side, above a band of pods that belong to no single zone.
    const parts = zones.map(() => []);
    const shared = [];
    for (const p of list) (parts[zoneOf(p, zones)] || shared).push(p);
    const sharedNeed = shared.reduce((total, p) => total + need(state.measure, p), 0);
    const most = shared.length < list.length ? HIGH - LEAST : HIGH; // zones with pods keep some room
    const band = shared.length ? Math.min(most, Math.max(LEAST, full > 0 ? (sharedNeed / full) * HIGH : 0)) : 0;
    if (shared.length) fillTank(children, shared, 0, HIGH - band, WIDE, band, Math.max(1, sharedNeed), nodeClass, own);
    const width = WIDE / zones.length;
    zones.forEach((zone, i) => {
      const scale = state.measure === "cpu" ? 1000 : 1;
      const zoneFull = (quantity((zone.resources || {})[state.measure] || 0) * scale || full / zones.length) * (1 - band / HIGH);
      fillTank(children, parts[i], i * width, 0, width, HIGH - band, zoneFull, nodeClass, own);
      if (i) children.push(svg("line", { x1: i * width, x2: i * width, y1: 0, y2: HIGH - band, class: "numa" }));
    });
  }
  target.replaceChildren(...children);
}

// The pods moved by the current wave, which are outlined.
function ofWave() {
  if (!W || state.at === 0) return new Set();
  if (ofWave.at !== state.at) {
    ofWave.made = new Set(D.waves[state.at - 1].steps.map(stepPod));
    ofWave.at = state.at;
  }
  return ofWave.made;
}
