// Devices that a node can use, and their allocation to claims.

const T = D.devices ? D.devices.taken : { device: [], pods: [] };
const deviceName = (i) => `${D.devices.pools[D.devices.pool[i]].join("/")}/${D.devices.name[i]}`;

const takenOf = (key) => once(() => {
  const found = new Map();
  T.device.forEach((device, t) => [key === "pods" ? T.pods[t] : device].flat().forEach((each) => {
    const p = key === "pods" ? stepPod({ pod: each }) : each;
    found.set(p, [...(found.get(p) || []), t]);
  }));
  return found;
});
const takenOfDevice = takenOf("device");
const takenOfPod = takenOf("pods");

// Between waves, an earlier allocation lasts while a pod is at its old place, and a later one begins when a pod is at its new place.
function isTaken(t, at) {
  const view = at === 0 ? 1 : at === LAST ? 2 : 0;
  if (view || T.when[t] === 3) return (T.when[t] & (view || 3)) > 0;
  const place = placesAt(at);
  const then = P.place[T.when[t] === 1 ? 0 : P.place.length - 1];
  return T.pods[t].map((pod) => stepPod({ pod })).some((p) => p >= 0 && then[p] >= 0 && place[p] === then[p]);
}

function amountOf(device, label, value) {
  const [, of, binary] = (D.devices.capacity[device] || []).find(([each]) => each === label) || [];
  const write = binary ? bytes : number;
  return `${of === undefined ? write(value) : partOf(write, value, of)} ${label}`;
}

function takenHow(t) {
  const amounts = T.amounts[t].map(([label, value]) => amountOf(T.device[t], label, value)).join(", ");
  return T.how[t] === 2 ? "admin access" : T.how[t] === 1 ? amounts || "a share" : "";
}

function nodeDevices(n) {
  const reached = D.devices ? D.devices.sites[D.devices.site[n]] : [];
  if (!reached.length) return [];
  const rows = reached.map((device) => {
    const taken = (takenOfDevice().get(device) || []).filter((t) => isTaken(t, state.at));
    const shares = taken.filter((t) => T.how[t] === 1);
    const sums = shares.length > 1 ? (D.devices.capacity[device] || []).map(([label]) => [label, shares.flatMap((t) => T.amounts[t]).reduce((sum, [each, value]) => sum + (each === label ? value : 0), 0)]) : [];
    const by = taken.map((t) => h("li", null, name(T.claim[t]), takenHow(t) && ` ${takenHow(t)}`, usersOf(t)));
    return [name(deviceName(device)), by.length ? [h("ul", { class: "plain" }, by), sums.length ? h("span", { class: "dim" }, "together ", sums.map(([label, value]) => amountOf(device, label, value)).join(", ")) : null] : "none"];
  });
  const draw = (some) => table("Devices of this node", ["Device", "Taken by claim"], some);
  return [h("h3", null, "Devices ", h("span", { class: "dim" }, number(rows.length))), more(rows, 40, "devices", draw)];
}

function usersOf(t) {
  const listed = T.pods[t].map((pod) => (typeof pod === "number" ? P.name[pod] : pod));
  const some = listed.slice(0, 3).map((text, i) => [i ? ", " : " of ", name(text)]);
  return h("span", { class: "dim" }, some, listed.length > 3 ? ` and ${number(listed.length - 3)} more` : null);
}

function podDevices(p) {
  const taken = (takenOfPod().get(p) || []).filter((t) => isTaken(t, state.at));
  if (!taken.length) return null;
  const rows = taken.map((t) => [name(T.claim[t]), name(T.request[t]), [name(deviceName(T.device[t])), takenHow(t) && h("span", { class: "dim" }, ` ${takenHow(t)}`)]]);
  return table(`Devices of ${P.name[p]}`, ["Claim", "Request", "Device"], rows);
}
