// Preferences: points by family, workloads that lost points, and unmet preferences. For a plan: before and after.

function bar(value, best) {
  if (best <= 0) return "–"; // no meaningful fraction of 0 or of a cost
  const level = h("i");
  level.style.width = `${Math.max(0, Math.min(100, (100 * value) / best))}%`;
  return h("span", { class: "track wide", "aria-hidden": "true" }, level);
}

function buildPreferences() {
  const root = byId("preferences-body");
  const found = D.preferences;
  if (!found || !(found.families.length || found.unmet.length)) return void root.append(empty("No preferences were weighed."));
  if (D.kind === "RebalancePlan") {
    root.append(table("Families of preferences", ["Family", ["Before", "num"], ["After", "num"], ["Change", "num"], ["Weight", "num"]],
      found.families.map((each) => [each.family, number(each.before), number(each.value), signed(each.value - each.before), `× ${number(each.multiplier)}`])));
    return;
  }
  root.append(table("Families of preferences", ["Family", "Met", ["Points", "num"], ["At best", "num"], ["Lost", "num"], ["Weight", "num"]],
    found.families.map((each) => [each.family, bar(each.value, each.best), number(each.value), number(each.best), number(each.best - each.value), `× ${number(each.multiplier)}`])));
  root.append(h("h3", null, "Not met"), found.unmet.length ? more(found.unmet, 20, "preferences",
    (some) => table("Preferences that were not met in full", ["Workload", "Family", "Preference", ["Pods", "num"], ["Points lost", "num"]],
      some.map((each) => [name(each.workload), each.family, name(each.preference), number(each.pods), number(each.lost)]))) : empty("Every preference is met in full."));
  const losers = found.workloads.filter((each) => each.lost);
  if (losers.length) {
    root.append(later(`Points of each workload (${number(found.workloads.length)})`, () => more(found.workloads, 50, "workloads",
      (some) => table("Points of each workload", ["Workload", ["Points", "num"], ["Lost", "num"]], some.map((each) => [name(each.workload), number(each.value), number(each.lost)])))));
  }
}
