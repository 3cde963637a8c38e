"""Selectors that match nothing, everything, or not the intended pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kubestow.audit.view.finding import Code, some
from kubestow.audit.view.label_matches import ADDED, LabelMatches, custom_maker
from kubestow.audit.view.pod_terms import PodTerm
from kubestow.audit.view.usable_nodes import wanted
from kubestow.audit.view.view import ClusterView, Subject
from kubestow.models.cluster.unknown_namespaces import SENTENCE
from kubestow.models.documents.findings.audit import Finding, Severity
from kubestow.models.kube.selectors import Selector, requirement_holds, selector_matches
from kubestow.models.workloads.checks import describe
from kubestow.models.workloads.view import selector as adopts

_DEAD: Final = Code(
    "KS201", "selector-matches-nothing", "warning",
    "A rule's label selector matches no pod",
    "The rule has no effect: it neither separates nor attracts any pods.",
    "Correct the labels in the selector, or remove the rule.",
)  # fmt: skip
_MISSES: Final = Code(
    "KS202", "selector-misses-own-pods", "warning",
    "An anti-affinity or spread rule matches other pods, but not the workload's own replicas",
    "The replicas are not separated: all may run on one node or in one zone.",
    "Change the selector to match the labels of the pod template, or add a rule that does.",
)  # fmt: skip
_NULL: Final = Code(
    "KS203", "selector-null", "warning",
    "A rule has no label selector, which matches no pod",
    "A missing labelSelector matches nothing, unlike an empty one. Required affinity then never holds, and anti-affinity and spread have"
    " no effect.",
    "Write the intended selector. In affinity and anti-affinity {} matches every pod; topology spread counts no pod with it.",
)  # fmt: skip
_EMPTY: Final = Code(
    "KS204", "selector-empty", "info",
    "A rule's label selector is empty, which matches every pod",
    "Affinity and anti-affinity then apply to every pod in their namespaces, including those of other teams and future ones. Topology"
    " spread with an empty selector counts no pods.",
    "Select the labels of the intended pods.",
)  # fmt: skip
_NAMESPACE: Final = Code(
    "KS205", "namespace-missing", "warning",
    "A rule refers to namespaces that do not exist",
    "It matches no pods there, so this part of the rule has no effect or can never hold.",
    "Correct the namespace or the namespaceSelector.",
)  # fmt: skip
_SERVICE: Final = Code(
    "KS206", "service-selects-nothing", "warning",
    "A Service selects no pod",
    "It has no endpoints, so clients get no response. Default spread constraints that are based on the Service do not apply.",
    "Correct the selector of the Service or the labels of the pods, or remove the Service.",
)  # fmt: skip
_ADOPTS: Final = Code(
    "KS207", "workload-misses-template", "error",
    "A workload's selector does not select its own template",
    "API servers reject such a workload. If one is accepted, its controller creates pods endlessly because it does not recognise its own.",
    "Make spec.selector match the labels of the pod template.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (_DEAD, _MISSES, _NULL, _EMPTY, _NAMESPACE, _SERVICE, _ADOPTS)

_WORDS: Final = {"affinity": "pod affinity", "anti-affinity": "pod anti-affinity", "spread": "topology spread"}
_SELECTING: Final = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController")


def check(view: ClusterView) -> Iterator[Finding]:
    matches = view.once(LabelMatches)
    for s, subject in enumerate(view.subjects):
        for term in matches.terms[s]:
            yield from _judge(view, matches, subject, term)
        yield from _own_template(subject)
    where = _where(view)
    if matches.services and not matches.members:
        view.not_checked.append("whether Services select pods: the snapshot has neither pods nor workloads")
    for service, selector in matches.services if matches.members else ():
        namespace = service.metadata.namespace or "default"
        if not matches.may_hit(selector, frozenset((namespace,))).any():
            maker = custom_maker(view.snapshot, namespace, selector)
            if maker is not None:
                view.not_checked.append(f"whether Service {namespace}/{service.metadata.name} selects pods that {maker} creates")
                continue
            name, text = (
                f"Service {namespace}/{service.metadata.name}",
                f"selects {describe(selector)}, and {where} in its namespace has these labels",
            )
            severity: Severity = "warning" if view.snapshot.nodes else "info"
            yield _SERVICE.found(name, text, field="spec.selector", severity=severity)
    listed = any(term.named or term.chosen for each in matches.terms for term in each)
    if listed and not _whole(view):
        view.not_checked.append("whether the namespaces that rules name exist: the snapshot is not of a whole cluster")
    _name_undecided(view, matches)


def _name_undecided(view: ClusterView, matches: LabelMatches) -> None:
    """Note the namespaces whose unknown labels decide, unless the snapshot's omissions already say so."""
    if any(text.startswith(SENTENCE) for text in view.snapshot.omissions):
        return
    unknown = {n for each in matches.terms for t in each for n in t.undecided if matches.may_hit(t.selector, frozenset((n,))).any()}
    if view.undecided is not None:
        view.not_checked.append(view.undecided.sentence(view.snapshot))
    elif unknown:  # templates without pods
        lacks = f"the snapshot lacks the Namespace object{'s' * (len(unknown) > 1)} {some(sorted(unknown))}"
        view.not_checked.append(f"namespaces that a namespaceSelector selects by label: {lacks} (kubectl get namespaces -o json)")


def _judge(view: ClusterView, matches: LabelMatches, subject: Subject, term: PodTerm) -> Iterator[Finding]:
    field = f"{term.path}.labelSelector"
    what = _WORDS[term.kind] if term.kind == "spread" else f"{'required' if term.required else 'preferred'} {_WORDS[term.kind]}"
    astray = list(_namespaces(matches, subject, term, what)) if _whole(view) else []
    yield from astray
    if term.selector is None:
        never = term.kind == "affinity" and term.required
        effect = "no pod can ever meet it, so its own are never placed" if never else "it has no effect"
        fix = "Write the intended selector" + ("; {} counts no pod either." if term.kind == "spread" else "; {} matches every pod.")
        yield _NULL.found(
            subject.name, f"{what} over {term.key} without a labelSelector: {effect}", field=field, rule=term.rule,
            severity="error" if never else None, fix=fix,
        )  # fmt: skip
        return
    if not term.selector:
        yield from _empty(matches, subject, term, what, field)
        return
    hits = matches.may_hit(term.selector, term.may_look)
    own = matches.own[matches.number(subject)]
    if not hits.any():
        if term.kind == "affinity" and term.required and view.snapshot.nodes:
            return  # KS217 reports this
        if astray:
            return  # reported with the namespace
        chosen = tuple(r for r in term.selector if r.operator in ("In", "Exists"))
        if (
            len(chosen) == len(term.selector) or not matches.may_hit(chosen, term.may_look).any()
        ):  # otherwise it concerns pods that come and go
            yield _dead(view, subject, term, what, field)
        return
    if hits[own] or term.kind == "affinity" or wanted(subject) < 2 or _apart(term.selector, subject):
        return
    if term.kind == "anti-affinity":
        others = (t for t in matches.terms[matches.number(subject)] if t.kind != "affinity" and t is not term)
        if any(matches.may_hit(t.selector, t.may_look)[own] for t in others):
            return  # another rule separates its replicas; this one concerns other pods
        if not _near(term.selector, subject.labels):
            return  # the selector names other pods to avoid
    yield _MISSES.found(
        subject.name,
        f"{what} over {term.key} does not match its own {wanted(subject)} replicas: {_difference(term.selector, subject)}",
        field=field, rule=term.rule,
    )  # fmt: skip


def _dead(view: ClusterView, subject: Subject, term: PodTerm, what: str, field: str) -> Finding:
    assert term.selector is not None
    meant = term.kind == "spread" or (term.kind == "anti-affinity" and _near(term.selector, subject.labels))
    apart = meant and wanted(subject) > 1 and not _apart(term.selector, subject)
    effect = f"; its own {wanted(subject)} replicas are not separated: {_difference(term.selector, subject)}" if apart else ""
    text = f"{what} over {term.key} selects pods with {describe(term.selector)}: {_where(view)} {term.where} has these labels{effect}"
    return _DEAD.found(subject.name, text, field=field, rule=term.rule, severity="warning" if apart else "info")


def _empty(matches: LabelMatches, subject: Subject, term: PodTerm, what: str, field: str) -> Iterator[Finding]:
    if term.kind == "spread":
        text = f"{what} over {term.key} with an empty labelSelector counts no pod: it has no effect"
        yield _EMPTY.found(subject.name, text, field=field, rule=term.rule, severity="warning")
        return
    others = matches.subjects(matches.hits(term.selector, term.namespaces), without=matches.number(subject))
    if term.kind == "anti-affinity" and term.required and others:
        return  # KS301, KS302 or KS304 report the pods that it keeps out
    yield _EMPTY.found(subject.name, f"{what} over {term.key} selects every pod {term.where}", field=field, rule=term.rule)


def _namespaces(matches: LabelMatches, subject: Subject, term: PodTerm, what: str) -> Iterator[Finding]:
    known = matches.view.snapshot.namespaces
    missing = [name for name in term.named if name not in known and name not in matches.spaces]
    if missing:
        text = f"{what} over {term.key} names {some(missing)}, which does not exist"
        yield _NAMESPACE.found(subject.name, text, field=f"{term.path}.namespaces", rule=term.rule)
    if (
        term.chosen
        and not term.undecided
        and not any(selector_matches(term.chosen, namespace.metadata.labels or {}) for namespace in known.values())
    ):
        text = f"{what} over {term.key} selects namespaces with {describe(term.chosen)}, and none exists"
        yield _NAMESPACE.found(subject.name, text, field=f"{term.path}.namespaceSelector", rule=term.rule)


def _own_template(subject: Subject) -> Iterator[Finding]:
    if subject.workload is None or subject.kind not in _SELECTING:
        return
    template_matches = adopts(subject.workload.obj)
    if template_matches is not None and not selector_matches(template_matches, subject.workload.labels):
        text = f"spec.selector does not select the template: {_difference(template_matches, subject)}"
        yield _ADOPTS.found(subject.name, text, field="spec.selector")


# --- words ------------------------------------------------------------------------------------------------------------


def _whole(view: ClusterView) -> bool:
    """Return True if the snapshot is of a whole cluster, so that missing objects do not exist."""
    return bool(view.snapshot.nodes and view.snapshot.namespaces)


def _where(view: ClusterView) -> str:
    return "no pod" if view.snapshot.nodes else "no pod or template"


def _apart(selector: Selector, subject: Subject) -> bool:
    """Return True if a selector excludes its own pods on purpose, with NotIn or DoesNotExist."""
    return any(r.operator in ("NotIn", "DoesNotExist") and not requirement_holds(r, subject.labels) for r in selector)


def _near(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Return True if a selector seems intended for these labels: it matches in part, or has one of their values under another key."""
    holds = [requirement_holds(r, labels) for r in selector if r.operator == "In"]
    return any(holds) or any(value in r.values for r in selector if r.operator == "In" for value in labels.values())


def _difference(selector: Selector, subject: Subject) -> str:
    """Return the labels of the pods that differ from the selector."""
    labels = subject.workload.labels if subject.workload is not None else subject.labels
    whose = "the template" if subject.workload is not None else "the pod"
    parts = []
    for r in selector:
        if requirement_holds(r, labels) or (r.key in ADDED and subject.workload is not None):
            continue
        text = f"it requires {describe((r,))}, but {whose} has {f'{r.key}={labels[r.key]}' if r.key in labels else f'no label {r.key}'}"
        alike = [f"{key}={value}" for key, value in labels.items() if r.key not in labels and value in r.values]
        parts.append(text + (f" (but {some(alike)})" if alike else ""))
    return "; ".join(parts) or describe(selector)
