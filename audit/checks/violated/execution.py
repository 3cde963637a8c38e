"""Rules that hold during execution, evaluated on their own: who breaks them, and who would have to go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from audit.checks.violated.affinity import Together, lonely
from audit.checks.violated.running_pods import Running, only_execution, without_execution
from audit.view.view import ClusterView
from solver.rules.node_static import NodeAffinity


@dataclass
class Executed:
    """Pods that would have to go, each set in no order. ``selection``: their node affinity does not match; ``alone``: they miss the pods
    of their affinity. ``running``: with no affinity but that which holds during execution."""

    running: Running
    selection: set[int] = field(default_factory=set)
    alone: frozenset[int] = frozenset()


def executed(view: ClusterView) -> Executed | None:
    """None where no pod has such a rule."""
    snapshot = only_execution(view.snapshot)
    if snapshot is None or not snapshot.nodes:
        return None
    found = Executed(Running(view, snapshot))
    running = found.running
    rule = NodeAffinity(running.cluster)
    for g, cells in enumerate(running.cells):
        if running.steady[g]:
            for at in np.flatnonzero(rule.never(g)[running.nodes[g]]).tolist():
                found.selection.update(cells[at][1])
    found.alone = _alone(view, running)
    return found


def lonely_in_execution(view: ClusterView) -> frozenset[int]:
    """Running pods whose affinity that holds during execution is broken."""
    snapshot = only_execution(view.snapshot)
    return frozenset() if snapshot is None else _alone(view, Running(view, snapshot))


def _alone(view: ClusterView, running: Running) -> frozenset[int]:
    """Pods that miss others by these terms. Those with plain terms as well have to miss them by all of their terms together, too: else
    they would be let in here again."""
    found = {i for each in lonely(running) for i in each.pods}
    mixed = {i for i in found if _has_plain(view, i)}
    if mixed:
        missed = {i for each in lonely(Running(view, without_execution(view.snapshot))) for i in each.pods}
        found -= mixed - missed
    return frozenset(found)


def _has_plain(view: ClusterView, i: int) -> bool:
    affinity = view.snapshot.pods[i].spec.affinity
    part = affinity.podAffinity if affinity is not None else None
    return part is not None and bool(part.requiredDuringSchedulingIgnoredDuringExecution)


def leaving(running: Running, groups: Sequence[Together]) -> list[list[int]]:
    """For each group of pods that are to be kept apart, those that would have to go, in order, until nobody breaks the rule of any group.

    Of a pair the one with the rule, or, where priorities differ, the one of lower priority. Pods that are being deleted go anyway.
    """
    gone = {i for each in groups for i in each.owners | each.matched if not running.is_steady(i)}
    found: list[list[int]] = [[] for _ in groups]
    of: dict[int, list[int]] = {}
    for k, each in enumerate(groups):
        for i in each.owners | each.matched:
            of.setdefault(i, []).append(k)
    for i in running.first_to_go(i for i in of if i not in gone):
        broken = [k for k in of[i] if _loses(running, groups[k], i, gone)]
        for k in broken:
            found[k].append(i)
        if broken:
            gone.add(i)
    return found


def _loses(running: Running, group: Together, i: int, gone: set[int]) -> bool:
    mine = running.priority(i)

    def stay(others: Iterable[int], least: int) -> bool:
        return any(j != i and j not in gone and running.priority(j) >= least for j in others)

    return (i in group.owners and stay(group.matched, mine)) or (i in group.matched and stay(group.owners, mine + 1))
