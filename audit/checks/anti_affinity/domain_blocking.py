"""Required anti-affinity that keeps others out of whole domains: a denial of service (docs/sources.md#inter-pod-affinity)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kubestow.audit.view.finding import Code, some
from kubestow.audit.view.headroom import Headroom
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
    "Required anti-affinity over all namespaces with a key other than the hostname",
    "A single small pod keeps every pod that it matches, of every team, out of a whole zone or region: the denial of service that the"
    " design of anti-affinity warns of. The scheduler accepts it.",
    "Limit the rule to its own namespace, use kubernetes.io/hostname, or make it a preferred rule; solve can refuse such rules by policy"
    " (refuseAllNamespacesAntiAffinity).",
)  # fmt: skip
_CLAIMS: Final = Code(
    "KS302", "anti-affinity-claims-domain", "warning",
    "Required anti-affinity that keeps pods of other workloads out of whole domains",
    "Hard anti-affinity holds in both directions: one pod of it closes its domain to all pods that it matches, though these have no rule.",
    "Let the selector match its own pods only, use kubernetes.io/hostname, or make it a preferred rule.",
)  # fmt: skip
_HOLDS: Final = Code(
    "KS303", "domain-held", "warning",
    "A running pod closes a whole domain to others",
    "Nothing of what its anti-affinity matches can be placed there as long as it runs, however much room there is.",
    "Change the rule (see KS301 and KS302) and let the workload roll out, or move it to where it is in nobody's way.",
)  # fmt: skip
_NODES: Final = Code(
    "KS304", "anti-affinity-claims-node", "info",
    "Required anti-affinity that keeps pods of other workloads off its nodes",
    "Each of its pods closes its node to all pods that it matches. That may be meant; it also costs that node for them.",
    "If it is not meant, let the selector match its own pods only.",
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
            if term.key == HOSTNAME or not everywhere:  # who has the same rule agrees with it
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
        now = f"{len(pods)} pod{'s' * (len(pods) != 1)} of other workloads now ({names})" if pods else f"those of {names} among them"
        text += f", {now}"
    else:
        text += "; today these are its own"
    if code is not _NODES and view.snapshot.nodes:
        codes, values = view.nodes.column(term.key)
        if values:
            most = int(np.bincount(codes[codes >= 0]).max())
            text += f"; {len(values)} domain{'s' * (len(values) != 1)}, of up to {most} node{'s' * (most != 1)}"
        else:
            text += "; no node has the label"
    if others or pods:
        text += _cost(view, subject, term)
    return code.found(subject.name, text, field=term.path, rule=term.rule, severity=severity)


def _homes(view: ClusterView, subject: Subject, codes: Ids) -> dict[int, int]:
    """By running pod of a subject, the domain that it is in. ``codes``: int32[N], the domain of each node, -1 for none."""
    pods = view.snapshot.pods
    found = ((i, view.node_index.get(pods[i].spec.nodeName or "")) for i in subject.pods)
    return {i: int(codes[n]) for i, n in found if n is not None and codes[n] >= 0}


def _cost(view: ClusterView, subject: Subject, term: PodTerm) -> str:
    """Return what the rule costs those that it refuses: what is free now where its pods run, else all that the largest domain has beside
    one pod, of those that could take it."""
    codes, values = view.nodes.column(term.key)
    room = view.once(Headroom)
    homes = _homes(view, subject, codes)
    if homes:
        held = np.isin(codes, sorted(set(homes.values())))
        return f"; its {len(homes)} running pod{'s keep' if len(homes) > 1 else ' keeps'} them from {room.left(held)} that are free there"
    if not view.snapshot.nodes:
        return ""
    usable = view.once(UsableNodes).place(subject).usable
    most = room.largest((codes == d for d in range(len(values)) if (usable & (codes == d)).any()), subject.pod)
    return f"; one pod of it would keep them from up to {most}" if most is not None else ""


def _same(matches: LabelMatches, h: int, term: PodTerm) -> bool:
    """Return whether a subject has the same rule."""
    kept = (term.kind, term.required, term.key, term.selector, term.namespaces)
    return any((t.kind, t.required, t.key, t.selector, t.namespaces) == kept for t in matches.terms[h])


def _broad(matches: LabelMatches, s: int, term: PodTerm, others: list[int]) -> bool:
    """Return whether a term matches every pod there will be, or most of several other workloads where it looks."""
    if not term.selector:
        return True
    view = matches.view
    there = [h for h, other in enumerate(view.subjects) if h != s and (term.namespaces is None or other.namespace in term.namespaces)]
    return len(there) > 2 and 2 * len(others) > len(there)


def _held(matches: LabelMatches, subject: Subject, term: PodTerm, pods: list[int]) -> Iterator[Finding]:
    """The domains in which a subject's pods run now. ``pods``: those of others that the term matches."""
    view = matches.view
    codes, values = view.nodes.column(term.key)
    holders = _homes(view, subject, codes)
    if not holders:
        return
    held: Bools = np.isin(codes, sorted(set(holders.values())))
    domains = [f"{term.key}={values[d]}" for d in sorted(set(holders.values()))]
    waiting = [i for i in pods if not view.snapshot.pods[i].spec.nodeName]
    shut = [i for i in waiting if _nowhere_else(view, i, held)]
    inside = int(np.count_nonzero(held))
    text = f"closes {some(domains)} ({inside} of {view.nodes.size} nodes) to the pods that its anti-affinity matches, with"
    text += f" {view.once(Headroom).left(held)} that are free there"
    if shut:
        text += f"; {len(shut)} waiting pod{'s' * (len(shut) > 1)} could use no other node: {some(view.keys(shut))}"
    elif waiting:
        text += f", {len(waiting)} waiting one{'s' * (len(waiting) > 1)} among them"
    yield _HOLDS.found(
        subject.name, text, field=term.path, rule=term.rule, pods=view.keys(list(holders)), severity="error" if shut else None,
        nodes=[view.nodes.names[n] for n in np.flatnonzero(held)[:20]], domain=domains[0] if len(domains) == 1 else None,
    )  # fmt: skip


def _nowhere_else(view: ClusterView, i: int, held: Bools) -> bool:
    """Return whether a waiting pod could use nodes of the held domains, and no others."""
    subject = view.subject_of.get(i)
    if subject is None or subject.kind == "DaemonSet":
        return False
    usable = view.once(UsableNodes).place(subject).usable
    return bool(usable.any() and not (usable & ~held).any())
