// Marking: pods, workloads or nodes that were looked for stand out on the map, the rest steps back.

const hit = (p) => Boolean(state.mark && (state.mark.pods.has(p) || state.mark.workloads.has(P.workload[p])));

function markWorkload(w) {
  const same = state.mark && state.mark.key === `workload ${w}`;
  set({ mark: same ? null : mark(`workload ${w}`, workloadName(w), [], [w]) });
}

const mark = (key, label, pods, workloads, nodes) => ({ key, label, pods: new Set(pods), workloads: new Set(workloads), nodes: new Set(nodes || []) });

// The pods that a pod's rules name, and those of its own workload, where the document says which.
function markTies(p) {
  const rules = D.shapes[P.shape[p]].rules || [];
  const workloads = [P.workload[p], ...rules.flatMap((rule) => rule.workloads || [])].filter((w) => w >= 0);
  set({ mark: mark(`pod ${p}`, `${P.name[p]} and ${workloads.length > 1 ? "the workloads its rules name" : "its workload"}`, [p], workloads) });
}

// The nodes with something marked, and how many pods that is.
function marked() {
  const nodes = new Set(state.mark.nodes);
  let count = 0;
  if (grouped && D.groups) {
    const counts = D.groups.count[state.at === LAST ? D.views.length - 1 : 0];
    D.groups.workload.forEach((w, g) => {
      if (!state.mark.workloads.has(w) || !counts[g] || D.groups.node[g] < 0) return;
      count += counts[g];
      nodes.add(D.groups.node[g]);
    });
  }
  const place = placesAt(state.at);
  for (let p = 0; p < place.length; p += 1) {
    if (place[p] < 0 || !(grouped ? state.mark.pods.has(p) : hit(p))) continue;
    nodes.add(place[p]);
    if (!grouped || !state.mark.workloads.has(P.workload[p])) count += 1;
  }
  return { nodes, count };
}

function showMark() {
  const bar = byId("mark");
  byId("map").classList.toggle("marking", Boolean(state.mark));
  bar.hidden = !state.mark;
  if (!state.mark) return { nodes: new Set() };
  const found = marked();
  const text = found.count ? `${pods(found.count)} on ${plural(found.nodes.size, "node")}` : plural(found.nodes.size, "node");
  bar.replaceChildren(h("span", null, "Marked: ", name(state.mark.label), h("span", { class: "dim" }, ` ${text}`)),
    h("button", { class: "link", onclick: () => { set({ mark: null }); focusNode(); } }, "Clear"));
  return found;
}
