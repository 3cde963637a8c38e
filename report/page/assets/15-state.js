// The current view. Every change goes through set(), which notifies listeners of a key and writes the shareable part to the address.

const state = { at: LAST, node: -1, pod: -1, colour: "utilisation", measure: "cpu", mark: null };
const COLOURS = ["utilisation", "workload", "priority", "change"].slice(0, D.views.length > 1 ? 4 : 3);
const MEASURES = ["cpu", "memory"];
const listeners = [];

const on = (keys, listener) => listeners.push([keys, listener]);

function set(changes) {
  const changed = Object.keys(changes).filter((key) => state[key] !== changes[key]);
  if (!changed.length) return;
  Object.assign(state, changes);
  for (const [keys, listener] of listeners) if (keys.some((key) => changed.includes(key))) listener(changed);
  writeHash();
}

const atText = (at) => {
  if (LAST === 0) return "now";
  if (at === 0) return "before";
  return at === LAST ? `after the ${POOL ? "upgrade" : { RebalancePlan: "plan", Rollout: "rollout" }[D.kind] || "placement"}` : `after wave ${D.waves[at - 1].wave}`;
};

let started = false;

function writeHash() {
  if (!started) return;
  const parts = [];
  if (state.node >= 0) parts.push(`node=${encodeURIComponent(D.nodes.name[state.node])}`);
  if (W && state.at > 0 && state.at < LAST) parts.push(`wave=${D.waves[state.at - 1].wave}`);
  else if (state.at !== LAST) parts.push("view=before");
  if (state.colour !== COLOURS[0]) parts.push(`colour=${state.colour}`);
  if (state.measure !== MEASURES[0]) parts.push(`size=${state.measure}`);
  try {
    history.replaceState(null, "", `#${parts.join("&")}`);
  } catch {
    // a page without its own address (a preview) cannot be shared anyway
  }
}

function readHash() {
  const found = new URLSearchParams(location.hash.slice(1));
  const changes = {};
  if (found.has("node")) changes.node = nodeIndex().get(found.get("node")) ?? -1;
  const wave = D.waves.findIndex((each) => String(each.wave) === found.get("wave"));
  if (wave >= 0) changes.at = wave + 1;
  else if (found.get("wave") === "0" || found.get("view") === "before") changes.at = 0;
  else if (found.get("view") === "after") changes.at = LAST;
  if (COLOURS.includes(found.get("colour"))) changes.colour = found.get("colour");
  if (MEASURES.includes(found.get("size"))) changes.measure = found.get("size");
  set(changes);
}

const say = (text) => {
  byId("live").textContent = text;
};
