// Marking: pods, workloads or nodes that were searched for are highlighted on the map, and others are dimmed.

const hit = (p) => Boolean(state.mark && (state.mark.pods.has(p) || state.mark.workloads.has(P.workload[p])));

function markWorkload(w) {
  const same = state.mark && state.mark.key === `workload ${w}`;
  set({ mark: same ? null : markOf(w) });
}

const markOf = (w) => mark(`workload ${w}`, workloadName(w), { workloads: [w] });

// label: a text from the document; note: our own text after it
const mark = (key, label, { pods: some, workloads, nodes, note = "" }) => ({ key, label, note, pods: new Set(some), workloads: new Set(workloads), nodes: new Set(nodes) });

// The pods of workloads that a pod's rules name, and of its own workload.
function markTies(p) {
  const rules = D.shapes[P.shape[p]].rules || [];
  const workloads = [P.workload[p], ...rules.flatMap((rule) => rule.workloads || [])].filter((w) => w >= 0);
  const note = ` and ${workloads.length > 1 ? "the workloads its rules name" : "its workload"}`;
  set({ mark: mark(`pod ${p}`, P.name[p], { pods: [p], workloads, note }) });
}

// The nodes with marks, and the number of marked pods.
function marked() {
  const { pods: some, workloads, nodes } = state.mark;
  const counts = new Map();
  const add = (n, count) => n >= 0 && counts.set(n, (counts.get(n) || 0) + count);
  if (grouped) {
    const column = D.groups.count[state.at === LAST ? D.views.length - 1 : 0];
    D.groups.workload.forEach((w, g) => workloads.has(w) && add(D.groups.node[g], column[g]));
  }
  const place = placesAt(state.at);
  const between = state.at > 0 && state.at < LAST;
  for (let p = 0; p < place.length; p += 1) {
    if (grouped && workloads.has(P.workload[p])) {
      // Counted among the groups, as they are before the first wave.
      if (between) add(P.place[0][p], -1);
      if (between) add(place[p], 1);
    } else if (grouped ? some.has(p) : hit(p)) add(place[p], 1);
  }
  const found = [...counts].filter(([, count]) => count > 0);
  return { nodes: new Set([...nodes, ...found.map(([n]) => n)]), count: found.reduce((sum, [, count]) => sum + count, 0) };
}

function showMark() {
  const bar = byId("mark");
  byId("map").classList.toggle("marking", Boolean(state.mark));
  bar.hidden = !state.mark;
  if (!state.mark) return { nodes: new Set() };
  const found = marked();
  const text = found.count ? `${pods(found.count)} on ${plural(found.nodes.size, "node")}` : plural(found.nodes.size, "node");
  bar.replaceChildren(h("span", null, "Marked: ", name(state.mark.label), state.mark.note, h("span", { class: "dim" }, ` ${text}`)),
    h("button", { class: "link", onclick: () => { set({ mark: null }); focusNode(); } }, "Clear"));
  return found;
}
