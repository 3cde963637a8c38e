"""Required anti-affinity that closes whole domains to other pods: a denial of service (docs/sources.md#inter-pod-affinity)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kubestow.audit.view.finding import Code, some
from kubestow.audit.view.headroom import NodeHeadroom
from kubestow.audit.view.label_matches import LabelMatches
from kubestow.audit.view.pod_terms import HOSTNAME, PodTerm
from kubestow.audit.view.usable_nodes import UsableNodes
from kubestow.audit.view.view import ClusterView, Subject
from kubestow.models.cluster.cluster import Ids
from kubestow.models.documents.findings.audit import Finding, Severity
from kubestow.models.kube.selectors import Bools
from kubestow.models.workloads.checks import describe

_ALL: Final = Code(
    "KS301", "anti-affinity-over-all-namespaces", "warning",
    "Required anti-affinity covers all namespaces, with a topology key other than the hostname",
    "One small pod closes a whole zone or region to all matching pods of all teams. The design of anti-affinity warns of this denial of"
    " service, and the scheduler does not prevent it.",
    "Limit the rule to its own namespace, use kubernetes.io/hostname, or make the rule preferred. A policy can make solve reject such rules"
    " (refuseAllNamespacesAntiAffinity).",
)  # fmt: skip
_CLAIMS: Final = Code(
    "KS302", "anti-affinity-claims-domain", "warning",
    "Required anti-affinity closes whole domains to pods of other workloads",
    "Required anti-affinity works in both directions: one pod closes its domain to all matching pods, even if these have no such rule.",
    "Restrict the selector to the workload's own pods, use kubernetes.io/hostname, or make the rule preferred.",
)  # fmt: skip
_HOLDS: Final = Code(
    "KS303", "domain-held", "warning",
    "A running pod closes a whole domain to others",
    "While it runs, no pod that its anti-affinity matches can be placed there, regardless of free capacity.",
    "Change the rule (see KS301 and KS302) and roll out the workload, or move the pod to a domain that no other workload needs.",
)  # fmt: skip
_NODES: Final = Code(
    "KS304", "anti-affinity-claims-node", "info",
    "Required anti-affinity closes nodes to pods of other workloads",
    "Each of its pods closes its node to all matching pods. This may be intended, but those pods lose the node.",
    "If this is not intended, restrict the selector to the workload's own pods.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (_ALL, _CLAIMS, _HOLDS, _NODES)


def check(view: ClusterView) -> Iterator[Finding]:
    matches = view.once(LabelMatches)
    spaces = len({s.namespace for s in view.subjects} | {p.metadata.namespace or "default" for p in view.snapshot.pods})
    refuse = view.policy.refuseAllNamespacesAntiAffinity
    for s, subject in enumerate(view.subjects):
        for term in matches.terms[s]:
            if not (term.required and term.kind == "anti-affinity") or term.selector is None:
                continue
            hits = matches.hits(term.selector, term.namespaces)
            everywhere = term.everywhere(spaces)
            others, pods = matches.subjects(hits, without=s), matches.pods(hits, without=s)
            if term.key == HOSTNAME or not everywhere:  # workloads with the same rule accept it
                agreed = {i for h in others if _same(matches, h, term) for i in view.subjects[h].pods}
                others = [h for h in others if not _same(matches, h, term)]
                pods = [i for i in pods if i not in agreed]
            if term.key == HOSTNAME:
                if others or pods:
                    yield _found(_NODES, matches, subject, term, others, pods, None)
                continue
            if everywhere:
                yield _found(_ALL, matches, subject, term, others, pods, "error" if refuse or others or pods else "warning")
            elif not others and not pods:
                continue
            else:
                broad = _broad(matches, s, term, others)
                yield _found(_CLAIMS, matches, subject, term, others, pods, "warning" if broad else "info")
                if not broad:
                    continue
            if (others or pods) and view.snapshot.nodes:
                yield from _held(matches, subject, term, pods)


def _found(
    code: Code, matches: LabelMatches, subject: Subject, term: PodTerm, others: list[int], pods: list[int], severity: Severity | None
) -> Finding:
    view = matches.view
    whom = f"pods {describe(term.selector or ())}" if term.selector else "every pod"
    text = f"refuses {whom} {term.where} in its whole domain of {term.key}"
    if code is _NODES:
        text = f"refuses {whom} {term.where} on its nodes"
    if others or pods:
        names = some([view.subjects[h].name for h in others]) if others else "static pods"
        now = f"{len(pods)} pod{'s' * (len(pods) != 1)} of other workloads now ({names})" if pods else f"including those of {names}"
        text += f": {now}"
    else:
        text += "; currently these are only its own"
    if code is not _NODES and view.snapshot.nodes:
        codes, values = view.nodes.column(term.key)
        if values:
            largest_domain = int(np.bincount(codes[codes >= 0]).max())
            text += f"; {len(values)} domain{'s' * (len(values) != 1)}, of up to {largest_domain} node{'s' * (largest_domain != 1)}"
        else:
            text += "; no node has the label"
    if others or pods:
        text += _cost(view, subject, term)
    return code.found(subject.name, text, field=term.path, rule=term.rule, severity=severity)


def _homes(view: ClusterView, subject: Subject, codes: Ids) -> dict[int, int]:
    """Return the domain of each running pod of a subject. ``codes`` is int32[N]: the domain of each node, -1 for none."""
    pods = view.snapshot.pods
    found = ((i, view.node_index.get(pods[i].spec.nodeName or "")) for i in subject.pods)
    return {i: int(codes[n]) for i, n in found if n is not None and codes[n] >= 0}


def _cost(view: ClusterView, subject: Subject, term: PodTerm) -> str:
    """Return the cost of a rule to the pods that it rejects, as text.

    This is the free capacity in the domains where its pods run. If none run, it is the capacity of the largest
    usable domain minus one pod.
    """
    codes, values = view.nodes.column(term.key)
    room = view.once(NodeHeadroom)
    homes = _homes(view, subject, codes)
    if homes:
        occupied = np.isin(codes, sorted(set(homes.values())))
        deny = "s deny" if len(homes) > 1 else " denies"
        return f"; its {len(homes)} running pod{deny} them the {room.remaining(occupied)} that are free there"
    if not view.snapshot.nodes:
        return ""
    usable = view.once(UsableNodes).place(subject).usable
    largest_capacity = room.largest((codes == d for d in range(len(values)) if (usable & (codes == d)).any()), subject.pod)
    return f"; one of its pods would deny them up to {largest_capacity}" if largest_capacity is not None else ""


def _same(matches: LabelMatches, h: int, term: PodTerm) -> bool:
    """Return True if a subject has the same rule."""
    kept = (term.kind, term.required, term.key, term.selector, term.namespaces)
    return any((t.kind, t.required, t.key, t.selector, t.namespaces) == kept for t in matches.terms[h])


def _broad(matches: LabelMatches, s: int, term: PodTerm, others: list[int]) -> bool:
    """Return True if a term matches every pod, or most of several other workloads in its namespaces."""
    if not term.selector:
        return True
    view = matches.view
    there = [h for h, other in enumerate(view.subjects) if h != s and (term.namespaces is None or other.namespace in term.namespaces)]
    return len(there) > 2 and 2 * len(others) > len(there)


def _held(matches: LabelMatches, subject: Subject, term: PodTerm, pods: list[int]) -> Iterator[Finding]:
    """Yield the finding about domains where the subject's pods run. ``pods`` are the matching pods of other workloads."""
    view = matches.view
    codes, values = view.nodes.column(term.key)
    holders = _homes(view, subject, codes)
    if not holders:
        return
    occupied: Bools = np.isin(codes, sorted(set(holders.values())))
    domains = [f"{term.key}={values[d]}" for d in sorted(set(holders.values()))]
    waiting = [i for i in pods if not view.snapshot.pods[i].spec.nodeName]
    shut = [i for i in waiting if _nowhere_else(view, i, occupied)]
    inside = int(np.count_nonzero(occupied))
    text = f"closes {some(domains)} ({inside} of {view.nodes.size} nodes) to the pods that its anti-affinity matches;"
    text += f" {view.once(NodeHeadroom).remaining(occupied)} are free there"
    if shut:
        text += f"; {len(shut)} pending pod{'s' * (len(shut) > 1)} cannot use any other node: {some(view.keys(shut))}"
    elif waiting:
        text += f"; {len(waiting)} pending pod{'s' * (len(waiting) > 1)} affected"
    yield _HOLDS.found(
        subject.name, text, field=term.path, rule=term.rule, pods=view.keys(list(holders)), severity="error" if shut else None,
        nodes=[view.nodes.names[n] for n in np.flatnonzero(occupied)[:20]], domain=domains[0] if len(domains) == 1 else None,
    )  # fmt: skip


def _nowhere_else(view: ClusterView, i: int, occupied: Bools) -> bool:
    """Return True if the held domains contain all nodes that a pending pod could use."""
    subject = view.subject_of.get(i)
    if subject is None or subject.kind == "DaemonSet":
        return False
    usable = view.once(UsableNodes).place(subject).usable
    return bool(usable.any() and not (usable & ~occupied).any())
