// Documents about capacity: how many fit, what to buy, what survives, how a pool is upgraded. The map shows the proof.

const capacityBadge = ([text, look], refuted) => badge(refuted ? "plain" : look,
  `${refuted ? "claims to be" : { good: "✓", bad: "✕", warn: "!" }[look] || "•"} ${text}`);

const TITLES = { Fit: "How many fit", Sizing: "What to buy", Survival: "What survives", Upgrade: "Waves of the upgrade" };

function buildCapacity() {
  const C = D.capacity;
  if (!C) return;
  byId("capacity").hidden = false;
  byId("capacity-title").textContent = TITLES[C.kind];
  byId("capacity-body").append(...{ Fit: fitParts, Sizing: sizingParts, Survival: survivalParts, Upgrade: upgradeParts }[C.kind](C).flat(2).filter(Boolean));
  // The map alone has no pending pods, preferences or search.
  if (D.kind === "Snapshot" || C.kind === "Upgrade") for (const id of ["unplaced", "preferences", "search-section"]) byId(id).hidden = true;
}

const proof = (proved) => (proved ? h("span", { class: "proved" }, "✓ proved") : "not proved");
const atMost = (value, bound) => (value === bound ? proof(true) : `at most ${number(bound)}`);

// --- fit ---------------------------------------------------------------------------------------------------------------------

function fitParts(C) {
  return [
    table("Replicas that fit", ["Workload", ["Fit", "num"], "Bound", ["Per unit", "num"], ["Running", "num"]],
      C.templates.map(([workload, fits, bound, ratio, runs]) => [name(workload), number(fits), atMost(fits, bound), number(ratio), number(runs)])),
    h("h3", null, "Why no more"), C.cause ? h("div", null, causeOf(C.cause)) : empty("The limiting conflict is unknown."),
    C.growth.length > 0 && h("h3", null, "Gain from one more node"),
    C.growth.length > 0 && more(C.growth, 20, "kinds of nodes", (some) => table("Gain from one more node of each kind", ["Like node", ["Existing", "num"], ["More units", "num"], "Bound"],
      some.map(([like, nodes, units, bound]) => [nodeLink(like), number(nodes), signed(units), atMost(units, bound)]))),
  ];
}

const nodeLink = (text) => (nodeIndex().has(text) ? goTo(nodeIndex().get(text)) : name(text));

// --- sizing ------------------------------------------------------------------------------------------------------------------

function sizingParts(C) {
  const names = (nodes) => later(plural(nodes.length, "node"), () => h("ul", { class: "plain columns" }, nodes.map((n) => h("li", null, n < 0 ? "–" : goTo(n)))));
  return [
    C.buy.length > 0 ? table("What to buy", ["Shape", "Zone", ["Nodes", "num"], ["Each per hour", "num"], ["Per hour", "num"], "Their names"],
      C.buy.map(([shape, zone, count, price, sum, nodes]) => [name(shape), name(zone), number(count), price, sum, names(nodes)])) : empty("No nodes to buy."),
    ...C.misfits.map(([pod, count, reasons]) => h("article", { class: "card" }, h("h3", null, name(pod), count > 1 ? ` and ${number(count - 1)} more fit nowhere` : " fits nowhere"),
      table("Why no shape takes them", ["Shape", "Rule", "Message"], reasons.map(([shape, rule, message]) => [name(shape), rule, name(message)])))),
    ...C.causes.map((each) => h("article", { class: "card" }, h("h3", null, each.pods.map((pod, i) => [i ? ", " : "", name(pod)])), causeOf(each.cause))),
    C.series && h("h3", null, "Over time"),
    C.series && table("Snapshots for which the nodes suffice", ["Snapshot", ["Pods", "num"], ["Alone, per hour", "num"], ["CPU", "num"], ["Memory", "num"], ""],
      C.series.map(([time, pods, alone, cpu, memory, decides]) => [name(time), number(pods), alone, cpu, memory, decides ? "decides" : ""])),
    C.utilisation.length > 0 && h("h3", null, "Utilisation of the purchased nodes"),
    C.utilisation.length > 0 && table("Utilisation of the purchased nodes by resource", ["Shape", "Resource", "", ["Used", "num"], ["Requested", "num"], ["By daemons", "num"], ["Allocatable", "num"]],
      C.utilisation.map(([shape, resource, requested, daemons, allocatable, share]) => [name(shape), name(resource), bar(share, 100), `${number(share)}%`, requested, daemons, allocatable])),
    C.workloads.length > 0 && h("h3", null, "Cost by workload"),
    C.workloads.length > 0 && more(C.workloads, 20, "workloads", (some) => table("Cost of each workload", ["Workload", ["Pods", "num"], ["Per hour", "num"], ""],
      some.map(([workload, count, cost, daemon]) => [name(workload), number(count), cost, daemon ? h("span", { class: "dim" }, "on every node") : ""]))),
    C.heat && h("h3", null, "What it survives"), C.heat && heatParts(C.heat),
  ];
}

// --- survival ----------------------------------------------------------------------------------------------------------------

function survivalParts(C) {
  const R = C.remedy;
  return [
    heatParts(C.heat),
    R && h("article", { class: "card" }, h("h3", null, R.certified ? "Certified with these nodes" : "Nodes that may help"),
      h("ul", { class: "ways" }, R.what.map((text) => h("li", null, name(text)))), R.cost ? h("p", null, R.cost) : null,
      R.options.length ? h("p", null, h("code", null, name(R.options.join(" ")))) : null),
    C.exposed.length > 0 && h("h3", null, "Other effects of failures"),
    C.exposed.length > 0 && more(C.exposed, 20, "objects", (some) => table("Budgets, quorums and bare pods", ["Object", ["Failures", "num"], "The worst", "Effect"],
      some.map(([kind, object, failures, worst, message]) => [[name(object), kind === "lost" ? [" ", badge("plain", "not recreated")] : null], number(failures), name(worst), name(message)]))),
  ];
}

// --- upgrade -----------------------------------------------------------------------------------------------------------------

function upgradeParts(C) {
  const nodes = (names) => (names.length ? names.map((text, i) => [i ? ", " : "", nodeLink(text)]) : "–");
  return [
    C.blocked.length > 0 && h("h3", null, "Blockers"),
    C.blocked.length > 0 && more(C.blocked, 20, "blockers", (some) => table("Blockers of drains", ["Node", "Kind", "Object", "Why", "Proved"],
      some.map(([node, kind, object, message, proved]) => [nodeLink(node), kind, name(object), name(message), proof(proved)]))),
    C.waves.length ? more(C.waves, 20, "waves", (some) => table("Waves", [["Wave", "num"], "Domain", "Join first", "Drained", "Join then", ["Moves", "num"], ""],
      some.map(([wave, domain, drain, surge, joined, moves]) => [number(wave), name(domain || "–"), nodes(surge), nodes(drain), nodes(joined), number(moves),
        h("button", { class: "link screen", "aria-label": `Show the map after wave ${number(wave)}`, onclick: () => showAfter(wave) }, "show")]))) : empty("No node can be drained."),
  ];
}

function showAfter(wave) {
  const at = D.waves.findIndex((each) => each.wave === wave);
  if (at >= 0) set({ at: at + 1 });
  goToHeading("map");
}
