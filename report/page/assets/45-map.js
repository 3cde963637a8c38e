// The map: zones as sections, nodes as buttons in them. The inside of a node is drawn when it comes near the window.

const boxes = []; // per node: {button, tank, bars, share, shown...}
let seen = null;

function buildMap() {
  const root = byId("map");
  root.classList.add(TILES ? "tiles" : "boxes");
  root.dataset.size = N <= 12 ? "large" : N <= 60 ? "medium" : N <= 300 ? "small" : N <= 1000 ? "tile" : "dot";
  if (!N) return void root.replaceChildren(empty("The snapshot has no nodes."));
  const members = new Map();
  for (let n = 0; n < N; n += 1) {
    const zone = D.nodes.zone[n];
    if (!members.has(zone)) members.set(zone, []);
    members.get(zone).push(n);
  }
  const order = [...members.keys()].sort((a, b) => (a < 0) - (b < 0) || a - b);
  const mixed = Math.max(...[...members.values()].map((each) => each.length));
  root.classList.toggle("side", order.length > 1 && (TILES ? mixed <= 60 : mixed <= 6));
  seen = new IntersectionObserver(showBoxes, { rootMargin: "100%" });
  const sections = order.map((zone) => buildZone(zone, members.get(zone)));
  root.replaceChildren(...sections);
  if (!TILES) {
    boxes.forEach((box) => seen.observe(box.button));
    addEventListener("scroll", drawAfterJump, { passive: true });
  }
  root.addEventListener("click", (event) => {
    const button = event.target.closest("[data-n]");
    if (!button) return;
    const p = event.target.dataset.p;
    set({ node: Number(button.dataset.n), pod: p === undefined ? -1 : Number(p) });
  });
}

function buildZone(zone, list) {
  const title = zone >= 0 && D.zones[zone].name ? D.zones[zone].name : D.zones.some((each) => each.name) ? "No zone" : "All nodes";
  const key = zone >= 0 && D.zones[zone].name ? D.zones[zone].key : "";
  const facts = h("span", { class: "dim" });
  const grid = h("div", { class: "grid", role: "group", "aria-label": `${title}, ${plural(list.length, "node")}` }, list.map(buildBox));
  zones.push({ facts, list });
  return h("section", { class: "zone" }, h("h3", { title: key }, name(title), facts), grid);
}

const zones = [];

function buildBox(n) {
  const flags = flagsOf(n);
  const className = `${TILES ? "tile" : "node"}${flags.map(([bit]) => ` flag${bit}`).join("")}`;
  const box = { shown: "", marks: "", tone: "", share: "", stale: true, near: false };
  box.button = h("button", { class: className, "data-n": n, tabindex: -1 });
  if (!TILES) {
    const most = { large: 26, medium: 22, small: 15 }[byId("map").dataset.size];
    const short = D.nodes.name[n].slice(0, D.nodes.name[n].length - commonEnd().length);
    box.tank = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, "aria-hidden": "true" });
    box.bars = MEASURES.map((measure) => {
      const level = h("i");
      const tick = h("b");
      const text = h("span", { class: "value" });
      return { measure, level, tick, text, row: h("span", { class: "meter" }, h("span", { class: "unit" }, measure === "cpu" ? "CPU" : "Mem"), h("span", { class: "track" }, level, tick), text) };
    });
    box.button.append(h("span", { class: "title" }, name(shorten(short, most)), h("span", { class: "flags" }, flags.map(([, glyph]) => glyph))),
      box.tank, ...box.bars.map((bar) => bar.row));
  }
  boxes[n] = box;
  return box.button;
}

function nodeLabel(n) {
  const usage = usageAt(state.at);
  const parts = MEASURES.map((measure) => `${measure === "cpu" ? "CPU" : measure} ${percent(usage[measure][n], capacity(measure, n))}%`);
  const where = zoneName(n) ? `, ${zoneName(n)}` : "";
  return `${D.nodes.name[n]}${where}: ${parts.join(", ")}, ${pods(usage.pods[n])}${flagsOf(n).map(([, , text]) => `, ${text}`).join("")}`;
}

// Update texts, levels and colours of all nodes. Only differences are written.
function refresh() {
  const found = showMark();
  const usage = usageAt(state.at);
  const changed = ofWave().size ? new Set(D.waves[state.at - 1].steps.flatMap((step) => [step.from, step.to])) : new Set();
  boxes.forEach((box, n) => {
    const label = nodeLabel(n);
    if (label !== box.shown) {
      box.button.setAttribute("aria-label", label);
      box.shown = label;
    }
    const marks = `${found.nodes.has(n) ? " hit" : ""}${changed.has(n) ? " now" : ""}${state.node === n ? " open" : ""}`;
    if (marks !== box.marks) {
      for (const each of ["hit", "now", "open"]) box.button.classList.toggle(each, marks.includes(each));
      box.marks = marks;
    }
    if (TILES) refreshTile(box, n);
    else refreshBars(box, n, usage);
    box.stale = true;
  });
  for (const { facts, list } of zones) facts.textContent = ` ${plural(list.length, "node")} · ${zoneUsage(list, usage)}`;
  showLegend();
  drawNear();
}

function zoneUsage(list, usage) {
  return MEASURES.map((measure) => {
    const sum = (column) => list.reduce((total, n) => total + column[n], 0);
    return `${measure === "cpu" ? "CPU" : measure} ${percent(sum(usage[measure]), sum(D.nodes[measure]))}%`;
  }).join(" · ");
}

function refreshTile(box, n) {
  const tone = tileClass(n);
  const share = `${Math.min(100, utilisationOf(n))}%`;
  if (tone !== box.tone) {
    if (box.tone) box.button.classList.remove(box.tone);
    box.button.classList.add(tone);
    box.tone = tone;
  }
  if (share !== box.share) box.button.style.setProperty("--share", share);
  box.share = share;
}

function refreshBars(box, n, usage) {
  for (const { measure, level, tick, text } of box.bars) {
    const now = percent(usage[measure][n], capacity(measure, n));
    const then = percent(D.usage[0][measure][n], capacity(measure, n));
    level.style.width = `${Math.min(100, now)}%`;
    level.className = now > 100 ? "over" : "";
    tick.style.left = `${Math.min(100, then)}%`;
    tick.hidden = then === now;
    text.textContent = `${now}%`;
  }
}

function showBoxes(entries) {
  for (const entry of entries) boxes[Number(entry.target.dataset.n)].near = entry.isIntersecting;
  drawNear();
}

// After a jump beyond the observer's margin, the observer is some frames late, which would show empty nodes.
let drawnAt = 0;

function drawAfterJump() {
  if (Math.abs(scrollY - drawnAt) < innerHeight) return;
  drawnAt = scrollY;
  for (const box of boxes) {
    const { top, bottom } = box.button.getBoundingClientRect();
    if (bottom > 0 && top < innerHeight) box.near = true;
  }
  drawNear();
}

function drawNear(all) {
  if (TILES) return;
  boxes.forEach((box, n) => {
    if (!box.stale || !(all || box.near)) return;
    drawTank(n, box.tank);
    box.stale = false;
  });
}

beforePrint.push(() => drawNear(true));

// The legend of node flags, and the common end that was cut from all names.
function mapNotes() {
  const bits = FLAGS.filter(([bit]) => D.nodes.flags.some((flags) => flags & bit));
  const notes = bits.map(([, glyph, text]) => h("span", null, h("span", { "aria-hidden": "true" }, TILES ? "" : `${glyph} `), TILES ? "" : text));
  if (!TILES && commonEnd()) notes.push(h("span", null, "Names end with ", name(commonEnd())));
  if (!TILES && D.views.length > 1) notes.push(h("span", null, h("span", { class: "tick-key", "aria-hidden": "true" }), "level before"));
  if (!TILES && Object.keys(D.nodes.numa || {}).length) notes.push(h("span", null, "┊ NUMA zones side by side"));
  const meaning = { utilisation: "", workload: ", coloured by the workload with the largest requests", priority: ", coloured by the priority with the largest requests", change: "" };
  if (TILES) notes.push(h("span", null, `One tile per node, filled as far as its ${state.measure === "cpu" ? "CPU" : "memory"} is requested${meaning[state.colour]}`));
  if (LAST) notes.push(h("span", { class: "paper" }, `The map shows the state ${atText(state.at)}`)); // the player is not printed
  byId("map-notes").replaceChildren(...notes);
}
