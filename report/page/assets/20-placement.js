// The places of pods at a position: before, after each wave, after.

// The node of each (named) pod at a position. Waves are replayed from the start: a plan has far fewer steps than a map has pods.
function placesAt(at) {
  if (!W || at === 0) return P.place[Math.min(at, P.place.length - 1)];
  if (placesAt.at !== at) {
    placesAt.made = Int32Array.from(P.place[0]);
    for (const wave of D.waves.slice(0, at)) {
      for (const step of wave.steps) {
        const p = stepPod(step);
        if (p >= 0) placesAt.made[p] = step.to;
      }
    }
    placesAt.at = at;
  }
  return placesAt.made;
}

// Return true if a pod was recreated before a position.
const madeAgain = (p, at) => at === LAST || D.waves.slice(0, at).some((wave) => wave.steps.some((step) => stepPod(step) === p));

// The pods of each node at a position, as one list with the start of each node's part.
function residents(at) {
  if (residents.at === at) return residents.made;
  const place = placesAt(at);
  const start = new Int32Array(N + 1);
  for (let p = 0; p < place.length; p += 1) if (place[p] >= 0) start[place[p] + 1] += 1;
  for (let n = 0; n < N; n += 1) start[n + 1] += start[n];
  const list = new Int32Array(start[N]);
  const next = start.slice();
  for (let p = 0; p < place.length; p += 1) if (place[p] >= 0) list[next[place[p]]++] = p;
  residents.at = at;
  residents.made = { start, list };
  return residents.made;
}

const podsOn = (n, at) => {
  const { start, list } = residents(at);
  return list.subarray(start[n], start[n + 1]);
};

// The requests on each node at a position: exact numbers of the document at the ends, sums of steps in between.
function usageAt(at) {
  if (at === 0 || at === LAST) return D.usage[at === 0 ? 0 : D.usage.length - 1];
  if (usageAt.at !== at) {
    const made = { cpu: D.usage[0].cpu.slice(), memory: D.usage[0].memory.slice(), pods: D.usage[0].pods.slice() };
    const from = P.place[0];
    const to = placesAt(at);
    for (let p = 0; p < to.length; p += 1) {
      if (from[p] === to[p] && !(P.recreated && P.recreated[p])) continue;
      for (const [n, sign, then] of [[from[p], -1, 0], [to[p], 1, at]]) {
        if (n < 0) continue;
        made.cpu[n] += sign * need("cpu", p, then);
        made.memory[n] += sign * need("memory", p, then);
        made.pods[n] += sign;
      }
    }
    usageAt.at = at;
    usageAt.made = made;
  }
  return usageAt.made;
}

// The aggregated pods of a node at a position: [{workload, shape, priority, count}], where count is not zero.
function groupsOn(n, at) {
  const view = at === LAST ? D.views.length - 1 : 0;
  const found = new Map();
  const add = (workload, shape, priority, count) => {
    const key = `${workload} ${shape} ${priority}`;
    const entry = found.get(key) || { workload, shape, priority, count: 0 };
    entry.count += count;
    found.set(key, entry);
  };
  const G = D.groups;
  for (const g of groupsByNode()[n]) add(G.workload[g], G.shape[g], G.priority[g], G.count[view][g]);
  if (at > 0 && at < LAST) {
    const to = placesAt(at);
    for (let p = 0; p < to.length; p += 1) {
      if (P.place[0][p] === to[p]) continue;
      if (P.place[0][p] === n) add(P.workload[p], P.shape[p], P.priority[p], -1);
      if (to[p] === n) add(P.workload[p], P.shape[p], P.priority[p], 1);
    }
  }
  return [...found.values()].filter((entry) => entry.count > 0);
}

// The nodes that gain (1), lose (2) or do both (3) between before and a position.
function differences(at) {
  const to = at === 0 ? LAST : at;
  if (differences.to === to) return differences.made;
  const made = new Uint8Array(N);
  const from = P.place[0] || [];
  const place = placesAt(to);
  for (let p = 0; p < place.length; p += 1) {
    if (from[p] === place[p]) continue;
    if (from[p] >= 0) made[from[p]] |= 2;
    if (place[p] >= 0) made[place[p]] |= 1;
  }
  if (grouped && D.groups && D.views.length > 1 && to === LAST) {
    D.groups.node.forEach((n, g) => {
      const gain = D.groups.count[1][g] - D.groups.count[0][g];
      if (n >= 0 && gain) made[n] |= gain > 0 ? 1 : 2;
    });
  }
  differences.to = to;
  differences.made = made;
  return made;
}
