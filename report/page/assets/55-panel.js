// The panel of one node: utilisation, pods with their rules, and changes.

const BUILT_AT_ONCE = 400;

function showPanel(changed) {
  const panel = byId("panel");
  const n = state.node;
  document.body.classList.toggle("with-panel", n >= 0);
  panel.hidden = n < 0;
  if (n < 0) return;
  const same = !changed.includes("node");
  const open = same ? [...panel.querySelectorAll("details[open][data-p]")].map((each) => each.dataset.p) : [];
  const inside = same && panel.contains(document.activeElement);
  const held = inside && document.activeElement.closest("details[data-p]");
  const { scrollTop } = panel;
  const head = h("header", null, h("h2", { tabindex: -1, id: "panel-title" }, name(D.nodes.name[n])),
    h("button", { class: "icon", "aria-label": "Close the panel", onclick: closePanel }, "✕"));
  panel.replaceChildren(head, nodeFacts(n), nodeLevels(n), ...numaZones(n), ...nodeDevices(n), ...residentsOf(n), ...groupChanges(n), ...goneFrom(n), nodeTexts(n));
  for (const p of open) unfold(p);
  panel.scrollTop = same ? scrollTop : 0;
  if (!started || !(inside || !same)) return;
  const again = held && panel.querySelector(`details[data-p="${held.dataset.p}"] > summary`);
  (again || byId("panel-title")).focus({ preventScroll: inside });
}

function closePanel() {
  const n = state.node;
  set({ node: -1, pod: -1, mark: state.mark && String(state.mark.key).startsWith("pod ") ? null : state.mark });
  focusNode(n);
}

function nodeFacts(n) {
  const zone = zoneName(n);
  return h("p", { class: "dim" }, zone && [name(zone), " · "], h("span", null, atText(state.at)), flagsOf(n).map(([, glyph, text]) => [" · ", h("span", null, `${glyph} ${text}`)]));
}

function nodeLevels(n) {
  const usage = usageAt(state.at);
  const rows = [["CPU", "cpu", D.nodes.cpu[n], cpu], ["Memory", "memory", D.nodes.memory[n], bytes], ["Pods", "pods", D.nodes.pods[n], number]];
  return h("dl", { class: "levels" }, rows.map(([label, measure, of, write]) => {
    const now = usage[measure][n];
    const then = D.usage[0][measure][n];
    const bar = h("i");
    const share = percent(now, of);
    bar.style.width = `${Math.min(100, share)}%`;
    if (share > 100) bar.className = "over";
    const before = then === now ? "" : ` (before: ${percent(then, of)}%)`;
    return h("div", null, h("dt", null, label), h("dd", null, h("span", null, `${share}%`, h("span", { class: "dim" }, ` ${partOf(write, now, of)}${before}`)),
      h("span", { class: "track", "aria-hidden": "true" }, bar)));
  }));
}

function numaZones(n) {
  const zones = (D.nodes.numa || {})[n];
  if (!zones) return [];
  const inside = grouped ? [] : [...podsOn(n, state.at)].filter((p) => P.zones[p]);
  const rows = zones.map((zone) => {
    const there = inside.flatMap((p) => P.zones[p].filter(([, names]) => names.includes(zone.name)).map(([container]) => `${P.name[p]} (${container})`));
    const resources = Object.entries(zone.resources || {}).map(([key, value]) => `${key} ${value}`).join(", ");
    return [name(zone.name), resources, there.length ? h("ul", { class: "plain" }, there.map((text) => h("li", null, name(text)))) : "none"];
  });
  return [h("h3", null, "NUMA zones"), table("NUMA zones of this node", ["Zone", "Resources", "Containers tied to it"], rows)];
}

function residentsOf(n) {
  if (grouped) return groupsOf(n);
  const list = [...podsOn(n, state.at)].sort((a, b) => need(state.measure, b) - need(state.measure, a) || a - b);
  const title = podsTitle(list.length);
  return [title, list.length ? h("div", { class: "pods" }, podHead("Pod"), list.slice(0, BUILT_AT_ONCE).map(podRow)) : empty("No pods on this node."),
    ...(list.length > BUILT_AT_ONCE ? [more(list.slice(BUILT_AT_ONCE), 0, "pods", (some) => h("div", { class: "pods" }, some.map(podRow)))] : [])];
}

const podsTitle = (count) => h("h3", null, "Pods ", h("span", { class: "dim" }, number(count)));
const podHead = (what) => h("div", { class: "pod-head" }, h("span", null, what), h("span", { class: "num" }, "CPU"), h("span", { class: "num" }, "Memory"));

function podRow(p) {
  const summary = [h("span", { class: "who" }, name(P.name[p]), P.state[p] ? [" ", badge(`state${P.state[p]}`, STATES[P.state[p]])] : null),
    h("span", { class: "num" }, cpu(need("cpu", p))), h("span", { class: "num" }, bytes(need("memory", p)))];
  const details = later(summary, () => podBody(p), "pod");
  details.dataset.p = p;
  details.querySelector("summary").addEventListener("click", () => (details.open ? set({ mark: null, pod: -1 }) : markTies(p)));
  return details;
}

function podBody(p) {
  const shape = D.shapes[P.shape[p]];
  const ties = shape.rules || [];
  const rows = (shape.containers || []).map((each) => {
    const zones = (P.zones[p] || []).find(([container]) => container === each.name);
    return [[name(each.name), each.init ? h("span", { class: "dim" }, " init") : null, zones ? h("span", { class: "dim" }, ` on ${zones[1].join(", ")}`) : null], each.cpu || "–", each.memory || "–"];
  });
  return h("div", { class: "body" }, podFacts(p),
    rows.length ? table(`Containers of ${P.name[p]}`, ["Container", ["CPU", "num"], ["Memory", "num"]], rows) : null,
    podDevices(p),
    h("h4", null, "Rules"),
    ties.length ? h("ul", { class: "rules" }, ties.map((rule) => h("li", null, h("span", { class: "rule" }, rule.rule), " ", name(rule.text), tiedTo(rule)))) : empty("No rules apply to this pod, only its requests."));
}

const tiedTo = (rule) => (rule.workloads || []).length > 0 && h("span", { class: "dim" }, " → ", rule.workloads.map((w, i) => [i ? ", " : "", name(workloadName(w))]));

function podFacts(p) {
  const facts = [];
  if (P.workload[p] >= 0) facts.push(name(workloadName(P.workload[p])));
  if (P.priority[p] >= 0) facts.push(`priority ${number(D.priorities[P.priority[p]])}`);
  const from = P.place[0][p];
  const to = P.place[P.place.length - 1][p];
  if (from !== to && from >= 0 && to >= 0) facts.push(["moves from ", goTo(from), " to ", goTo(to), inWaves(p)]);
  else if (from !== to) facts.push([to >= 0 ? ["placed on ", goTo(to)] : ["leaves ", goTo(from)], inWaves(p)]);
  return h("p", { class: "dim" }, facts.map((fact, i) => [i ? " · " : "", fact]));
}

const goTo = (n) => h("button", { class: "link", onclick: () => set({ node: n, pod: -1 }) }, name(D.nodes.name[n]));

function inWaves(p) {
  const found = D.waves.filter((wave) => wave.steps.some((step) => stepPod(step) === p)).map((wave) => wave.wave);
  return found.length ? ` in wave ${found.join(", ")}` : "";
}

// Pods that were on the node before but are not now, and pods that will come until the end.
function goneFrom(n) {
  if (LAST === 0) return [];
  const from = P.place[0];
  const now = placesAt(state.at);
  const end = placesAt(LAST);
  const left = [];
  const coming = [];
  for (let p = 0; p < from.length; p += 1) {
    if (from[p] === n && now[p] !== n) left.push(p);
    if (end[p] === n && now[p] !== n) coming.push(p);
  }
  const list = (title, found, where, word) => found.length > 0 && [h("h3", null, `${title} `, h("span", { class: "dim" }, number(found.length))),
    h("ul", { class: "plain" }, found.map((p) => h("li", null, name(P.name[p]), h("span", { class: "dim" }, where[p] >= 0 ? [` ${word} `, goTo(where[p])] : word === "→" ? " is gone" : " is new", inWaves(p)))))];
  const some = grouped ? ", by name" : ""; // not all changed pods are named
  return [list(`Gone since before${some}`, left, now, "→"), list(`Still to come${some}`, coming, now, "from")].flat().filter(Boolean);
}

// The change in the number of pods by workload, if pods are aggregated.
function groupChanges(n) {
  if (!grouped || state.at === 0) return [];
  const counts = new Map();
  for (const [at, sign] of [[0, -1], [state.at, 1]]) {
    for (const { workload, count } of groupsOn(n, at)) counts.set(workload, (counts.get(workload) || 0) + sign * count);
  }
  const found = [...counts].filter(([, count]) => count).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]) || a[0] - b[0]);
  if (!found.length) return [];
  const draw = (some) => h("ul", { class: "plain" }, some.map(([w, count]) => h("li", null, `${signed(count)} × `, name(workloadName(w)))));
  return [h("h3", null, "Change since before"), more(found, 20, "workloads", draw)];
}

function groupsOf(n) {
  const list = groupsOn(n, state.at).sort((a, b) => D.shapes[b.shape].cpu * b.count - D.shapes[a.shape].cpu * a.count);
  const total = list.reduce((sum, each) => sum + each.count, 0);
  const draw = (some) => h("div", { class: "pods" }, podHead("Pods, requests of each"), some.map((each) => {
    const shape = D.shapes[each.shape];
    return later([h("span", { class: "who" }, `${number(each.count)} × `, name(workloadName(each.workload))), h("span", { class: "num" }, cpu(shape.cpu)), h("span", { class: "num" }, bytes(shape.memory))],
      () => groupBody(each, shape), "pod");
  }));
  const own = [...podsOn(n, state.at)];
  return [podsTitle(total),
    list.length ? more(list, 100, "groups", draw) : empty("No pods on this node."),
    own.length ? [h("h3", null, "Changed pods ", h("span", { class: "dim" }, number(own.length))), h("div", { class: "pods" }, own.map(podRow))] : []].flat();
}

function groupBody(group, shape) {
  const rows = (shape.containers || []).map((each) => [[name(each.name), each.init ? h("span", { class: "dim" }, " init") : null], each.cpu || "–", each.memory || "–"]);
  return h("div", { class: "body" }, h("p", { class: "dim" }, group.priority < 0 ? "" : `priority ${number(D.priorities[group.priority])} · `,
    group.workload < 0 ? "" : h("button", { class: "link", onclick: () => markWorkload(group.workload) }, "Mark this workload on the map")),
    rows.length ? table(`Containers of ${workloadName(group.workload)}`, ["Container", ["CPU", "num"], ["Memory", "num"]], rows) : null,
    (shape.rules || []).length ? h("ul", { class: "rules" }, shape.rules.map((rule) => h("li", null, h("span", { class: "rule" }, rule.rule), " ", name(rule.text), tiedTo(rule)))) : null);
}

function nodeTexts(n) {
  const taints = D.nodes.taints ? D.nodes.taints[n] : [];
  const labels = D.nodes.labels ? D.nodes.labels[n] : [];
  const list = (texts) => h("ul", { class: "plain code" }, texts.map((text) => h("li", null, name(text))));
  return h("div", { class: "texts" },
    taints.length ? [h("h3", null, "Taints"), list(taints)] : null,
    labels.length ? later(`${plural(labels.length, "label")}`, () => list(labels)) : null);
}

function unfold(p) {
  const row = () => byId("panel").querySelector(`details[data-p="${p}"]`);
  const rest = byId("panel").querySelector(":scope > .more:has(> .rest)");
  if (!row() && rest) rest.all();
  const details = row();
  if (!details) return null;
  details.build();
  details.open = true;
  return details;
}

// Open a pod that was chosen on the map or in the search, and scroll to it.
function openPod() {
  const details = state.pod < 0 ? null : unfold(state.pod);
  if (!details) return;
  markTies(state.pod);
  details.scrollIntoView({ block: "nearest" });
}
