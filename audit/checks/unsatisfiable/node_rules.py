"""Workloads that no node can take because of node rules, taints or requests."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from kubestow.audit.view.container_fields import requesting
from kubestow.audit.view.finding import Code, some
from kubestow.audit.view.usable_nodes import SubjectNodes, UsableNodes, grave, wanted
from kubestow.audit.view.view import ClusterView, Subject
from kubestow.models.admission.deprecated_labels import hint
from kubestow.models.cluster.cluster import HARD_EFFECTS
from kubestow.models.cluster.near_misses import label_question, meant_resources, question
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.kube import objects
from kubestow.models.kube.selectors import NodeColumns, Tolerations

_MATCH: Final = Code(
    "KS211", "node-rules-match-no-node", "error",
    "No node matches the nodeSelector or required node affinity of a workload",
    "None of its pods can be placed on the existing nodes.",
    "Correct the required labels, or label or add suitable nodes.",
)  # fmt: skip
_CONTRADICT: Final = Code(
    "KS212", "node-rules-contradict", "error",
    "Node rules contradict each other",
    "No node can satisfy them, regardless of its labels: all expressions of a term must hold together with the nodeSelector.",
    "Remove one of the contradicting expressions. Write alternatives as separate nodeSelectorTerms.",
)  # fmt: skip
_REFUSED: Final = Code(
    "KS213", "all-nodes-refuse", "error",
    "Every node that a workload could use is tainted or cordoned",
    "None of its pods can be placed until its tolerations or the taints change.",
    "Add the missing toleration, remove the taint, or uncordon the nodes.",
)  # fmt: skip
_WAIT: Final = "Uncordon a node, or find out why the nodes with a condition taint are unhealthy. The workload needs no change."
_LARGE: Final = Code(
    "KS214", "requests-exceed-nodes", "error",
    "The requests of a workload exceed every node that it could use",
    "None of its pods fits, even on an empty node.",
    "Lower the requests, split the pod, or add a larger node.",
)  # fmt: skip
_NAMED: Final = Code(
    "KS222", "node-name-missing", "error",
    "A workload names a node that does not exist",
    "nodeName bypasses the scheduler. The pod is bound to a missing node, never runs, and is eventually deleted by the garbage collector.",
    "Name an existing node, or use nodeSelector or node affinity instead.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (_MATCH, _CONTRADICT, _REFUSED, _LARGE, _NAMED)


def judge(view: ClusterView, subject: Subject, usable_nodes: UsableNodes | None) -> Iterator[Finding]:
    """Yield the findings about a subject. Without nodes (``usable_nodes`` None), only contradictions are found."""
    broken = yield from _contradictions(view, subject)
    if usable_nodes is None:
        return
    yield from _node_name(view, subject)
    if broken or (subject.kind == "DaemonSet" and subject.workload is None):
        return  # each pod of a DaemonSet has an affinity to its own node
    place = usable_nodes.place(subject)
    if not place.selected.any():
        if _is_reported(view, subject):
            return
        more = hint(_label_keys(subject.pod.spec), view.snapshot.nodes) or label_question(view.nodes, subject.pod)
        yield _MATCH.found(
            subject.name,
            f"no node has {_asked(subject.pod.spec)}{more}",
            field=_field(view, subject),
            rule="NodeAffinity",
            severity=grave(view, subject),
        )
    elif subject.kind == "DaemonSet":
        return  # it runs wherever it may, and no node at all is often intended
    elif not (place.selected & ~place.tainted & ~place.cordoned).any():
        yield _refused(view, subject, usable_nodes, place)
    elif not place.usable.any():
        yield _large(view, subject, usable_nodes, place)


def _is_reported(view: ClusterView, subject: Subject) -> bool:
    """Return True if all pods of a workload run and break these rules now, which KS101 reports."""
    spec, pods = subject.pod.spec, [view.snapshot.pods[i].spec for i in subject.pods]
    same = all(
        pod.nodeName in view.node_index
        and pod.nodeSelector == spec.nodeSelector
        and (subject.kind == "DaemonSet" or pod.affinity == spec.affinity)
        for pod in pods
    )
    return same and 0 < wanted(subject) <= len(pods)


def _node_name(view: ClusterView, subject: Subject) -> Iterator[Finding]:
    if subject.workload is not None:
        name = subject.workload.spec.nodeName
        if name and name not in view.node_index:
            yield _NAMED.found(
                subject.name, f"the template names node {name}, which does not exist", field=f"{subject.path}.nodeName", rule="NodeName",
                severity=grave(view, subject),
            )  # fmt: skip


def _refused(view: ClusterView, subject: Subject, usable_nodes: UsableNodes, place: SubjectNodes) -> Finding:
    own = Tolerations(subject.pod.spec.tolerations, view.snapshot.gates)
    taints: dict[str, int] = {}
    for n in np.flatnonzero(place.selected & place.tainted).tolist():
        for taint in view.nodes.taints(n):
            if taint.effect in HARD_EFFECTS and not own.cover(taint):
                text = f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"
                taints[text] = taints.get(text, 0) + 1
    cordoned = int(np.count_nonzero(place.selected & place.cordoned))
    total = int(np.count_nonzero(place.selected))
    parts = [text if total == 1 else f"{text} on {count}" for text, count in sorted(taints.items(), key=lambda item: -item[1])]
    parts += ["cordoned" if total == 1 else f"{cordoned} cordoned"] if cordoned else []
    # Cordons and condition taints are temporary. If waiting suffices, the workload is not wrong.
    transient = bool((place.selected & usable_nodes.transient(subject)).any())
    severity = grave(view, subject)
    return _REFUSED.found(
        subject.name,
        f"{'the one node' if total == 1 else f'each of the {total} nodes'} that its node rules allow rejects it: {some(parts)}",
        field=f"{subject.path}.tolerations", rule="TaintToleration" if taints else "NodeUnschedulable",
        nodes=[view.nodes.names[n] for n in np.flatnonzero(place.selected)[:20]],
        severity="warning" if transient and severity == "error" else severity, fix=_WAIT if transient else None,
    )  # fmt: skip


def _near(nodes: Sequence[objects.Node], resource: str) -> str:
    """Return the resources of nodes that may be meant by one that no node has, as a clause."""
    asked = question(meant_resources(nodes, resource))
    return f" ({asked})" if asked else ""


def _large(view: ClusterView, subject: Subject, usable_nodes: UsableNodes, place: SubjectNodes) -> Finding:
    cluster, open_ = usable_nodes.cluster, place.selected & ~place.tainted & ~place.cordoned
    parts, short = [], "containers"
    for r in np.flatnonzero(cluster.demand[place.g]).tolist():
        requested, largest = int(cluster.demand[place.g, r]), int(cluster.allocatable[open_, r].max())
        if largest < requested:
            unit = "m" if cluster.resources[r] == "cpu" else ""
            short = requesting(subject.pod.spec, cluster.resources[r]) if short == "containers" else short
            parts.append(
                f"{cluster.resources[r]} {requested}{unit} while the largest node has {largest}{unit}"
                if largest
                else f"{cluster.resources[r]}, which no node has{_near(view.snapshot.nodes, cluster.resources[r])}"
            )
    total = int(np.count_nonzero(open_))
    if not cluster.slots[open_].any():
        parts.append("a pod slot, which no node has (allocatable pods)")
    text = "; ".join(parts) or "more resources together than any one node has"
    return _LARGE.found(
        subject.name, f"it may use {_count(total, 'node', 'nodes')} and requests {text}", field=f"{subject.path}.{short}",
        rule="NodeResourcesFit", severity=grave(view, subject),
    )  # fmt: skip


# --- contradictions ---------------------------------------------------------------------------------------------------


def _contradictions(view: ClusterView, subject: Subject) -> Generator[Finding, None, bool]:
    """Yield contradictory rules. Return True if no alternative remains that a node could satisfy."""
    spec = subject.pod.spec
    affinity = spec.affinity.nodeAffinity if spec.affinity is not None else None
    plain = [objects.NodeSelectorRequirement(key, "In", [value]) for key, value in (spec.nodeSelector or {}).items()]
    none_left = False
    for variant in ("requiredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingRequiredDuringExecution"):
        selector = getattr(affinity, variant) if affinity is not None else None
        if selector is None:
            continue
        listed = selector.nodeSelectorTerms or []
        dead = {i: why for i, term in enumerate(listed) if (why := _impossible(term, plain)) is not None}
        path = f"{subject.path}.affinity.nodeAffinity.{variant}.nodeSelectorTerms"
        if len(dead) == len(listed):
            none_left = True
            text = some(list(dict.fromkeys(dead.values()))) or "the list of terms is empty, which matches no node"
            severity = "warning" if subject.kind == "DaemonSet" else grave(view, subject)
            yield _CONTRADICT.found(subject.name, text, field=path, rule="NodeAffinity", severity=severity)
        else:
            for i, why in dead.items():
                text = f"{why}: this one of {len(listed)} alternatives never holds"
                yield _CONTRADICT.found(subject.name, text, field=f"{path}[{i}]", rule="NodeAffinity", severity="warning")
    return none_left


def _impossible(term: objects.NodeSelectorTerm, plain: list[objects.NodeSelectorRequirement]) -> str | None:
    """Return why no node matches a term together with the nodeSelector, regardless of its labels. None if one could."""
    if not term.matchExpressions and not term.matchFields:
        return "a term without expressions matches no node"
    by_key: dict[str, list[objects.NodeSelectorRequirement]] = {}
    for r in [*plain, *(term.matchExpressions or ())]:
        by_key.setdefault(r.key, []).append(r)
    for key, found in by_key.items():
        if not _possible(key, found):
            return f"no value of {key} meets {_all(found)}"
    if term.matchFields:
        named = [value for r in term.matchFields for value in r.values or ()]
        table = NodeColumns([objects.Node(objects.ObjectMeta(name)) for name in dict.fromkeys([*named, "other"])])
        if not table.term(objects.NodeSelectorTerm(None, term.matchFields)).any():
            return f"no node name meets {_all(term.matchFields)}"
    return None


def _possible(key: str, found: list[objects.NodeSelectorRequirement]) -> bool:
    """Return True if some value of a label, or its absence, satisfies all requirements.

    It suffices to test the named values, their numeric neighbours, one other value, and absence.
    """
    values = dict.fromkeys(value for r in found for value in r.values or ())
    for text in list(values):
        if text.isascii() and text.isdigit():
            values |= dict.fromkeys((str(int(text) + 1), str(max(0, int(text) - 1))))
    other = "x"
    while other in values:
        other += "x"
    labels: list[Mapping[str, str]] = [{}, *({key: value} for value in (*values, other))]
    table = NodeColumns([objects.Node(objects.ObjectMeta(labels=dict(each))) for each in labels])
    return bool(table.term(objects.NodeSelectorTerm(found)).any())


def _all(found: Iterable[objects.NodeSelectorRequirement]) -> str:
    return " and ".join(f"{r.operator} {', '.join(r.values)}" if r.values else r.operator for r in found)


def _asked(spec: objects.PodSpec) -> str:
    parts = [f"{key}={value}" for key, value in (spec.nodeSelector or {}).items()]
    affinity = spec.affinity.nodeAffinity if spec.affinity is not None else None
    for variant in ("requiredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingRequiredDuringExecution"):
        selector = getattr(affinity, variant) if affinity is not None else None
        if selector is not None:
            terms = [
                " and ".join(f"{r.key} {_all([r])}" for r in (*(t.matchExpressions or ()), *(t.matchFields or ())))
                for t in selector.nodeSelectorTerms or ()
            ]
            parts.append(" or ".join(terms))
    return " together with ".join(parts)


def _label_keys(spec: objects.PodSpec) -> list[str]:
    """Return the label keys in a pod's nodeSelector and required node affinity."""
    affinity = spec.affinity.nodeAffinity if spec.affinity is not None else None
    selector = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity is not None else None
    terms = selector.nodeSelectorTerms or () if selector is not None else ()
    return [*(spec.nodeSelector or {}), *(r.key for term in terms for r in term.matchExpressions or ())]


def _field(view: ClusterView, subject: Subject) -> str:
    spec = subject.pod.spec
    alone = bool(spec.nodeSelector) and not view.nodes.has_labels(spec.nodeSelector or {}).any()
    node = spec.affinity.nodeAffinity if spec.affinity is not None else None
    return f"{subject.path}.nodeSelector" if alone or node is None else f"{subject.path}.affinity.nodeAffinity"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
