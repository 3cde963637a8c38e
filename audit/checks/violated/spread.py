"""DoNotSchedule spread constraints that running pods exceed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kubestow.audit.checks.violated.running_pods import FindingGroup, Running, runs, whose
from kubestow.audit.view.finding import Code, some
from kubestow.models.cluster.cluster import Spread
from kubestow.models.documents.findings.audit import Finding
from kubestow.solver.rules.pod_topology_spread.rule import PodTopologySpread, SpreadTally
from kubestow.solver.rules.wording import selector

SKEW = Code(
    "KS108", "spread-exceeded", "warning", "Pods are spread more unevenly than their DoNotSchedule constraint allows",
    "The scheduler checks maxSkew only when it binds a pod, so removed nodes or pods may leave it exceeded. A failure of the fullest "
    "domain then stops too many pods, and new pods can only go to the emptiest domain.",
    "Move pods from full to empty domains (kubestow rebalance --goal repair), or restart the workload once all "
    "domains accept pods again.",
)  # fmt: skip
#: Maximum number of domains listed in a sentence.
_MAX_LISTED_DOMAINS: Final = 6


def spread(running: Running) -> Iterator[Finding]:
    """Yield findings about broken DoNotSchedule spread constraints, one per workload and constraint.

    Source: kube-scheduler plugin podtopologyspread (filtering.go). Terminating pods do not count.
    """
    cluster, view = running.cluster, running.view
    if not any(cls.spread for cls in cluster.classes):
        return
    rule = PodTopologySpread(cluster)
    for g, cells in enumerate(running.cells):
        if running.steady[g] and rule.concerned(g):
            for n, pods in cells:
                rule.place(g, n, len(pods))
    over: dict[tuple[str, str, Spread, int | None], FindingGroup] = {}
    for g, cells in enumerate(running.cells):
        if not running.steady[g]:
            continue
        for constraint, index in rule.own(g):
            for n, pods in cells:
                place = _broken(running, constraint, None if index is None else rule.tallies[index], n)
                if place is not None:
                    labelled = running.domain(constraint.key, n) is not None
                    for i in pods:
                        over.setdefault((*whose(view, i), constraint, index if labelled else None), FindingGroup()).add([i], place)
    for (name, path, constraint, index), group in over.items():
        pods, places = list(group.pods), list(group.places)
        if index is None:
            said = f"no label {constraint.key}, the topology key, on {some(places)}, where {runs(view, pods)}"
        else:
            tally = rule.tallies[index]
            said = f"{_counts(running, constraint, tally)}; {runs(view, pods)} in {some(places)}"
        yield SKEW.found(
            name, said, field=f"{path}.topologySpreadConstraints", rule="PodTopologySpread", pods=view.keys(pods),
            nodes=places if index is None else (), domain=places[0] if index is not None and len(places) == 1 else None,
        )  # fmt: skip


def _broken(running: Running, constraint: Spread, tally: SpreadTally | None, n: int) -> str | None:
    """Return the domain of the node if pods there exceed the constraint, or the node's name if it lacks the key. Otherwise None."""
    domain = running.domain(constraint.key, n)
    if domain is None:
        return running.cluster.nodes.names[n]
    if tally is None:
        return None
    # The filter counts the pod itself even if its node does not count.
    count = int(tally.counts[tally.codes[n]]) + int(constraint.itself and not tally.eligible[n])
    return domain if count - tally.floor(constraint.min_domains) > constraint.max_skew else None


def _counts(running: Running, constraint: Spread, tally: SpreadTally) -> str:
    """Return the domains with their counts, fullest first, and the resulting skew, as text."""
    _, values = running.cluster.nodes.column(constraint.key)
    inside = sorted(np.flatnonzero(tally.counted).tolist(), key=lambda d: (-int(tally.counts[d]), values[d]))
    shown = inside if len(inside) <= _MAX_LISTED_DOMAINS else [*inside[: _MAX_LISTED_DOMAINS - 1], inside[-1]]
    parts = [f"{values[d]} {int(tally.counts[d])}" for d in shown]
    if len(shown) < len(inside):
        parts.insert(-1, "…")
    floor = tally.floor(constraint.min_domains)
    few = ""
    if len(inside) < constraint.min_domains:
        few = f" (the minimum is 0 because only {len(inside)} of minDomains {constraint.min_domains} exist)"
    wanted = selector(running.cluster, constraint.matcher) if constraint.matcher is not None else ""
    top = int(tally.counts[inside].max(initial=0)) - floor
    return (
        f"pods {wanted} by {constraint.key}: {', '.join(parts) or 'no domain counts'}{few}, "
        f"a skew of {top} with maxSkew {constraint.max_skew}"
    )
