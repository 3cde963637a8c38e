// Findings of the audit for a snapshot without a result, most severe first.

const SEVERE = { error: ["bad", "✕ error"], warning: ["warn", "! warning"], info: ["plain", "info"] };

function buildAudit() {
  const A = D.audit;
  byId("audit").hidden = !A;
  if (!A) return;
  byId("audit-count").textContent = A.findings.length ? number(A.findings.length + A.more) : "";
  const body = byId("audit-body");
  if (A.findings.length) body.append(more(A.findings, 20, "findings", findings));
  else body.append(empty("No findings."));
  if (A.more) body.append(h("p", { class: "dim" }, `${number(A.more)} more are left out here: kubestow audit lists them.`));
  if (A.notChecked.length) body.append(later("Not checked", () => h("ul", { class: "notes" }, A.notChecked.map((text) => h("li", null, name(text))))));
}

const findings = (some) => table("Findings of the audit", ["Severity", "Code", "Object", "Problem", "Remedy"],
  some.map((each) => [badge(...SEVERE[each.severity]), h("span", { class: "whole" }, each.code), name(each.object), name(each.message), name(each.fix)]));
