// The result: status, violations, figures, and the objective with its bounds.

function tone(status) {
  const text = String(status || "").toLowerCase();
  if (/violat|fail|broken|infeasible|stuck|halt/.test(text)) return ["bad", "✕"];
  if (/^(optimal|complete|proved)/.test(text)) return ["good", "✓"];
  return ["plain", "•"];
}

function buildSummary() {
  const S = D.summary;
  byId("title").textContent = D.title;
  const left = D.unplaced.reduce((sum, each) => sum + each.count, 0);
  const badges = [];
  const [look, glyph] = S.violations.length ? ["plain", "claims to be"] : tone(S.status);
  const [status, ...apart] = S.status ? S.statusWords : [];
  if (status) badges.push(badge(look, `${glyph} ${status}`));
  badges.push(...apart.map((text) => badge("warn", `! ${text}`))); // tiers with a gap that the status leaves out
  if (D.capacity) badges.push(capacityBadge(D.capacity.status, S.violations.length > 0));
  if (left) badges.push(badge("warn", `! ${number(left)} ${D.kind === "Snapshot" ? "pending" : "not placed"}`));
  if (D.obstacles.length) badges.push(badge("warn", `! ${plural(D.obstacles.length, "obstacle")}`));
  if (S.violations.length) badges.push(badge("bad", `✕ ${plural(S.violations.length, "violation")}`));
  byId("status").append(...badges);
  byId("origin").hidden = !D.snapshot.origin;
  byId("origin").append(name(D.snapshot.origin || ""));
  const facts = [`kubestow ${D.version}`, S.engine && `engine ${S.engine}`, `snapshot ${D.snapshot.sha256.slice(0, 12)}`].filter(Boolean);
  byId("meta").append(...facts.map((text) => h("span", null, text)));
  byId("meta").title = D.snapshot.sha256;
  buildViolations(S.violations);
  buildTiles(S);
  buildTiers(S);
  if (D.rulesBroken) buildBroken(D.rulesBroken);
}

function buildViolations(found) {
  const root = byId("violations");
  root.hidden = !found.length;
  if (!found.length) return;
  root.append(h("h2", null, "✕ The checker rejects this result"), more(found, 20, "violations",
    (some) => table("Violations", ["Pod", "Node", "Rule", "Why"], some.map((each) => [name(each.pod || "–"), name(each.node || "–"), each.rule, name(each.why)]))));
}

function buildTiles(S) {
  const tiles = [...(D.capacity ? D.capacity.facts : []), ...S.facts];
  if (S.seconds) {
    const parts = Object.entries(S.seconds);
    tiles.push(["Time", seconds(parts.reduce((sum, [, value]) => sum + value, 0)), parts.map(([key, value]) => `${key} ${seconds(value)}`).join(", ")]);
  }
  byId("tiles").append(...tiles.map(([label, value, note]) => h("div", null, h("dt", null, label), h("dd", null, name(value), note && h("span", { class: "note" }, name(note))))));
}

function buildTiers(S) {
  const root = byId("tiers");
  if (D.capacity && (!S.tiers.length || D.kind === "RebalancePlan")) return;
  if (!S.tiers.length) return void root.append(empty(D.kind === "Snapshot" ? "This is a snapshot without a result. Pass --result to see a placement." : "This result has no objective."));
  const gap = (text) => (text === "proved" ? h("span", { class: "proved" }, "✓ proved") : text);
  root.append(table("Objective, most important tier first", ["Goal", ["Reached", "num"], ["Best possible", "num"], "Gap"],
    S.tiers.map((tier) => [name(tier.label), [number(tier.value), tier.of !== null && tier.of !== undefined ? h("span", { class: "dim" }, ` of ${number(tier.of)}`) : null],
      tier.bound === null ? "–" : number(tier.bound), gap(tier.gap)])));
}

function buildBroken(broken) {
  const rules = [...new Set([...Object.keys(broken.before), ...Object.keys(broken.after)])].sort();
  byId("tiers").append(h("h3", null, "Rules broken"), rules.length ? table("Rules broken before and after", ["Rule", ["Before", "num"], ["After", "num"]],
    rules.map((rule) => [rule, number(broken.before[rule] || 0), number(broken.after[rule] || 0)])) : empty("No hard rule is broken, before or after."));
}
