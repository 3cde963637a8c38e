// The document, and indices that are built on first use.

const D = JSON.parse(byId("data").textContent);
const N = D.nodes.name.length;
const grouped = D.pods === null;
const P = D.pods || D.named || { name: [], workload: [], shape: [], priority: [], place: D.views.map(() => []), zones: {}, state: [] };
const W = D.waves.length;
const LAST = W || D.views.length - 1; // positions: 0 is before, LAST is after, and each wave is one in between
const TILES = N > 300 || grouped; // small tiles without pods

const POOL = Boolean(D.capacity) && D.capacity.kind === "Upgrade"; // all nodes of the upgrade, old and new
const FLAGS = [[1, "⊘", "cordoned"], [2, "◆", "control plane"], [4, "○", POOL ? "drained" : "freed by the plan"], [8, "+", POOL ? "new" : D.capacity && D.capacity.kind === "Sizing" ? "bought" : "added by a what-if edit"],
  [16, "◐", "to drain, not emptied"], [32, "◎", "free before the plan"]];
const ROLLS = D.kind === "Rollout"; // old pods are removed and new ones created, none is evicted
const STATES = ["", "placed", "moved", ROLLS ? "removed" : "evicted", "left pending", "gated", ROLLS ? "new" : "from a manifest"];

const flagsOf = (n) => FLAGS.filter(([bit]) => D.nodes.flags[n] & bit);
const capacity = (measure, n) => D.nodes[measure][n];

const once = (make) => {
  let made;
  return () => (made === undefined ? (made = make()) : made);
};

const nodeIndex = once(() => new Map(D.nodes.name.map((text, n) => [text, n])));
const podIndex = once(() => new Map(P.name.map((text, p) => [text, p])));
const stepPod = (step) => (typeof step.pod === "number" ? step.pod : podIndex().get(step.pod) ?? -1);
const stepName = (step) => (typeof step.pod === "number" ? P.name[step.pod] : step.pod);

// The request of a pod at a position. A recreated pod loses an in-place resize.
const need = (measure, p, at = state.at) => {
  const recreated = P.recreated && P.recreated[p];
  return recreated && madeAgain(p, at) ? recreated[MEASURES.indexOf(measure)] : D.shapes[P.shape[p]][measure];
};
const workloadName = (w) => (w < 0 ? "no workload" : D.workloads[w].name);
const zoneName = (n) => {
  const zone = D.nodes.zone[n] < 0 ? null : D.zones[D.nodes.zone[n]];
  return zone && zone.name ? zone.name : "";
};

// The common end of all node names (a DNS domain), shown once above the map instead of in every node.
const commonEnd = once(() => {
  if (N < 2) return "";
  const first = D.nodes.name[0];
  const dot = first.indexOf(".");
  const end = dot > 0 ? first.slice(dot) : "";
  return end && D.nodes.name.every((text) => text.endsWith(end) && text.length > end.length) ? end : "";
});

// The aggregated pods of each node: index lists into the columns of groups.
const groupsByNode = once(() => {
  const lists = Array.from({ length: N }, () => []);
  if (grouped && D.groups) D.groups.node.forEach((n, g) => n >= 0 && lists[n].push(g));
  return lists;
});
