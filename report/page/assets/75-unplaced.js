// Unplaced pods: why nodes reject them, a minimal cause, and verified remedies.

function buildUnplaced() {
  const root = byId("unplaced-body");
  if (D.kind === "Snapshot") byId("unplaced-title").firstChild.textContent = "Pending ";
  byId("unplaced-count").textContent = D.unplaced.length ? number(D.unplaced.reduce((sum, each) => sum + each.count, 0)) : "";
  if (!D.unplaced.length) {
    return void root.append(empty(D.kind === "Snapshot" ? "There were no pods to place." : "Every pod to place has a node."));
  }
  root.append(more(D.unplaced, 20, "groups of pods", (some) => some.map(unplacedCard)));
}

function unplacedCard(each) {
  const what = each.gang ? ["Gang ", name(each.gang), ` · ${pods(each.count)}`] : each.count === 1 ? [name(each.pods[0])] : [name(each.pods[0]), ` and ${number(each.count - 1)} more`];
  const rest = each.pods.slice(each.gang ? 0 : 1);
  const hidden = each.count - each.pods.length;
  return h("article", { class: "card" }, h("h3", null, what),
    rest.length ? later(each.gang ? "Its pods" : "All pods", () => h("ul", { class: "plain columns" }, each.pods.map((text) => h("li", null, name(text))), hidden > 0 ? h("li", { class: "dim" }, `and ${number(hidden)} more`) : null)) : null,
    h("div", { class: "two" }, h("div", null, h("h4", null, "Why"), each.cause ? causeOf(each.cause) : null, reasonsOf(each.reasons)),
      h("div", null, h("h4", null, "Remedies"), remediesOf(each.cause))));
}

function causeOf(cause) {
  if (!cause.facts.length) return null; // a halted rollout: the table shows why
  const proof = cause.proved ? "Cannot be placed" : "No place was found";
  const others = cause.alone ? "even without the other waiting pods" : "given the places of the other pods";
  const together = cause.facts.length > 1 ? "these together rule it out" : "this alone rules it out";
  const rest = cause.minimal ? "" : " (not minimal: the time was up)";
  return [h("p", null, `${proof}, ${others}: ${together}${rest}.`),
    h("ul", { class: "rules" }, cause.facts.map((fact) => h("li", null, h("span", { class: "rule" }, fact.rule), " ", name(fact.message.startsWith(`${fact.rule}: `) ? fact.message.slice(fact.rule.length + 2) : fact.message), fact.object ? h("span", { class: "dim" }, " ", name(fact.object)) : null)))];
}

const reasonsOf = (reasons) => reasons.length > 0 && table("Rejections by nodes", ["Rule", "Message", ["Nodes", "num"]],
  reasons.map((each) => [h("span", { class: "whole" }, each.rule), name(each.message), each.nodes ? number(each.nodes) : "–"]));

function remediesOf(cause) {
  if (!cause) return empty("Not searched for.");
  const untried = cause.untried.join(", ");
  if (!cause.waysOut.length) return empty(untried ? `No change that was tried lets it be placed; not all tried: ${untried}.` : "No single change lets it be placed.");
  return h("ul", { class: "ways" }, cause.waysOut.map((way) => h("li", null, name(way.message), way.options && way.options.length ? h("code", null, name(way.options.join(" "))) : null)));
}
