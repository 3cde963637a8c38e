"""Broken rules that must hold during execution (requiredDuringSchedulingRequiredDuringExecution, docs/sources.md),
and the pods to evict.

Kubernetes never implemented them, so only manifests and hand-written snapshots have them. Source: specification of
the rules. The pod with the rule is evicted; of two separated pods, it is the one with lower priority.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kubestow.audit.checks.violated.affinity import lonely, together
from kubestow.audit.checks.violated.execution import Executed, executed, mending
from kubestow.audit.checks.violated.running_pods import Running, whose
from kubestow.audit.view.finding import Code, some
from kubestow.audit.view.view import ClusterView
from kubestow.models.cluster.cluster import AffinityTerm
from kubestow.models.documents.findings.audit import Finding
from kubestow.solver.rules.wording import node_rule, selector

_WHY: Final = "The rule must hold while the pod runs. A cluster that enforced it would evict the named pods"
_FIX: Final = "Plan the moves with kubestow rebalance --goal repair; --allow-eviction also permits evictions. "
SELECTION: Final = Code(
    "KS121", "execution-node-affinity-broken", "error", "Node affinity that must hold during execution is broken",
    f"{_WHY}, which could restart only on matching nodes.", f"{_FIX}Alternatively, restore the node labels.",
)  # fmt: skip
AFFINITY: Final = Code(
    "KS122", "execution-affinity-broken", "error", "Pod affinity that must hold during execution is broken",
    f"{_WHY}, which could restart only in the domains of the required pods. Evicting other pods does not help.",
    f"{_FIX}Alternatively, move the required pods back.",
)  # fmt: skip
APART: Final = Code(
    "KS123", "execution-anti-affinity-broken", "error", "Anti-affinity that must hold during execution is broken",
    f"{_WHY}, lowest priority first and, among equals, the pod with the rule first.",
    f"{_FIX}Alternatively, remove the label that makes the pods match.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (SELECTION, AFFINITY, APART)
_FIELD: Final = "requiredDuringSchedulingRequiredDuringExecution"
#: Maximum number of pods named in a sentence.
_MAX_NAMED_PODS: Final = 10


def check(view: ClusterView) -> Iterator[Finding]:
    """Yield findings KS121 to KS123. Their ``pods`` would be evicted, in order, including pods that must be near
    them.

    Raises:
        InputError: As for :func:`kubestow.audit.checks.violated.check.check`.
    """
    found = executed(view)
    if found is None:
        return
    yield from _selection(found)
    yield from _affinity(found)
    yield from _apart(found)


def _selection(found: Executed) -> Iterator[Finding]:
    running = found.running
    grouped: dict[tuple[str, str, str], list[int]] = {}
    for i in sorted(found.enforced.selection):
        pod = running.snapshot.pods[i]
        grouped.setdefault((*whose(running.view, i), node_rule(pod)), []).append(i)
    for (name, path, wanted), pods in grouped.items():
        yield SELECTION.found(
            name, f"excluded by {wanted}: {some(_nodes(running, pods))}; {_going(found, pods)}",
            field=f"{path}.affinity.nodeAffinity.{_FIELD}", rule="NodeAffinity", pods=running.view.keys(found.going(pods)),
            nodes=_nodes(running, pods),
        )  # fmt: skip


def _affinity(found: Executed) -> Iterator[Finding]:
    running, cluster, view = found.running, found.running.cluster, found.running.view
    grouped: dict[tuple[str, str, str], tuple[list[int], dict[str, None]]] = {}
    for each in lonely(running):
        affinity = cluster.classes[each.g].affinity
        assert affinity is not None
        domain = running.domain(each.key, each.n) or f"a domain of {each.key}, which {cluster.nodes.names[each.n]} lacks"
        for i in each.pods:
            if i in found.alone and i in found.enforced.begun:
                pods, domains = grouped.setdefault((*whose(view, i), selector(cluster, affinity.full)), ([], {}))
                pods.append(i)
                domains[domain] = None
    for (name, path, wanted), (pods, domains) in grouped.items():
        waiting = [mending(view, i) for i in dict.fromkeys(pods)]
        text = f"no other pod {wanted} is in {some(list(domains))}; {_going(found, pods)}"
        mended = bool(waiting) and all(waiting)
        if any(waiting):
            who = view.keys(list(dict.fromkeys(j for each in waiting for j in each)))
            where = some(list(domains)) if mended else "some of these domains"
            text += f"; pending {some(who)} would repair it in {where}, so it does not count as broken yet"
        yield AFFINITY.found(
            name, text, field=f"{path}.affinity.podAffinity.{_FIELD}", rule="InterPodAffinity", pods=view.keys(found.going(pods)),
            nodes=_nodes(running, pods), severity="warning" if mended else None,
        )  # fmt: skip


def _apart(found: Executed) -> Iterator[Finding]:
    running = found.running
    grouped: dict[tuple[str, str, AffinityTerm], tuple[list[int], list[str]]] = {}
    for group in together(running):
        if pods := found.breaking(group):
            owner = next((i for i in group.owners if running.is_steady(i) and group.broken_by(i)), pods[0])
            gone, domains = grouped.setdefault((*whose(running.view, owner), group.term), ([], []))
            gone += pods
            domains.append(group.domain)
    for (name, path, term), (pods, domains) in grouped.items():
        yield APART.found(
            name, f"anti-affinity to pods {selector(running.cluster, term.matcher)} is broken in {some(domains)}; {_going(found, pods)}",
            field=f"{path}.affinity.podAntiAffinity.{_FIELD}", rule="InterPodAffinity", pods=running.view.keys(found.going(pods)),
            nodes=_nodes(running, pods), domain=domains[0] if len(domains) == 1 else None,
        )  # fmt: skip


def _nodes(running: Running, pods: Iterable[int]) -> list[str]:
    return sorted({running.snapshot.pods[i].spec.nodeName or "" for i in pods})


def _going(found: Executed, pods: Iterable[int]) -> str:
    view, order = found.running.view, found.going(pods)
    text = f"pods to evict, in this order: {some(view.keys(order), _MAX_NAMED_PODS)}"
    behind = [i for i in order if i not in set(pods)]
    if behind:
        causes = view.keys(list(dict.fromkeys(found.order[i] for i in behind)))
        text += f" ({some(view.keys(behind))} must run near {some(causes)})"
    return text
