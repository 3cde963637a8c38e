"""Consolidation of worn clusters by plans and by two reference heuristics, which were fixed before the planner was tuned.

Free nodes count those that were free before. A plan that frees more nodes has to move more, so a second plan is asked for no more nodes
than the heuristic freed (``maxFreed``): its moves are compared with the heuristic's for the same number of freed nodes.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kubestow.instances.generate.worn import Worn
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.snapshot.snapshot import Snapshot
from tests.benchmarks.consolidation_reference import HEURISTICS, State

_NODES: Final = (12, 20, 30, 40, 50, 60, 80, 100)
_FILLS: Final = (30, 40, 50, 65)


def cluster(number: int) -> Worn:
    """The worn cluster of a number: 8 sizes by 4 fills, then again with other seeds."""
    nodes, fill = _NODES[number % len(_NODES)], _FILLS[number // len(_NODES) % len(_FILLS)]
    return Worn(nodes, 9 * nodes, seed=number, fill=fill, gone=30 if fill > 55 else 40)


def trace(snapshot: Snapshot, steps: Iterable[tuple[str, str, str]]) -> list[int]:
    """Return the number of free nodes that may be freed, at the start and after each step (pod, from, to)."""
    state = State(snapshot)
    freeable = frozenset(state.freeable)
    pods = Counter({name: len(state.nodes[name].mine) for name in freeable})
    free = sum(not pods[name] for name in freeable)
    found = [free]
    for _, source, target in steps:
        pods[source] -= 1
        free += source in freeable and not pods[source]
        free -= target in freeable and not pods[target]
        pods[target] += 1
        found.append(free)
    return found


@dataclass(frozen=True)
class Rival:
    """Result of a heuristic. ``ours``: moves of a plan that frees as many nodes and no more, None if it does not get there."""

    freed: int
    moves: int
    ours: int | None

    @property
    def ratio(self) -> float | None:
        """Our moves over theirs."""
        return self.ours / self.moves if self.ours is not None and self.moves else None


@dataclass(frozen=True)
class Compared:
    """One cluster: the plan, and the heuristics by name."""

    cluster: Worn
    before: int
    freed: int
    moves: int
    waves: int
    status: str
    seconds: float
    rivals: dict[str, Rival]


def compare(parameters: Worn, snapshot: Snapshot, plan: RebalancePlan, seconds: float, limited: Callable[[int], RebalancePlan]) -> Compared:
    """A plan for a cluster, and the results of the heuristics. ``limited``: makes a plan that frees at most n nodes."""
    before = trace(snapshot, [])[0]
    free = _free(snapshot, plan)
    rivals = {}
    for name, heuristic in HEURISTICS.items():
        theirs = heuristic(snapshot)
        wanted = len(theirs.nodes) - before
        ours = None
        if wanted > 0:
            same = plan if free == before + wanted else limited(wanted)
            ours = len(same.moves) if _free(snapshot, same) >= before + wanted else None
        rivals[name] = Rival(len(theirs.nodes), theirs.moves, ours)
    return Compared(parameters, before, free, len(plan.moves), plan.waves, plan.status, seconds, rivals)


def _free(snapshot: Snapshot, plan: RebalancePlan) -> int:
    ordered = sorted(plan.moves, key=lambda move: (move.wave, move.step))
    return trace(snapshot, ((move.pod, move.source or "", move.to) for move in ordered))[-1]


def table(rows: Sequence[Compared]) -> Iterator[str]:
    """A row for each cluster, then a summary."""
    names = list(HEURISTICS)
    heads = "".join(f" {name}: free | moves | plan for as many | ratio |" for name in names)
    yield f"| Nodes | Fill % | Seed | Free before | Plan: free | moves | waves | status | seconds |{heads}"
    yield f"|{'--:|' * (9 + 4 * len(names))}"
    for row in rows:
        size = f"{row.cluster.nodes} | {row.cluster.fill} | {row.cluster.seed}"
        own = f"{row.before} | {row.freed} | {row.moves} | {row.waves} | {row.status} | {row.seconds:.1f}"
        others = [f"{r.freed} | {r.moves} | {_shown(r.ours)} | {_ratio(r.ratio)}" for r in (row.rivals[name] for name in names)]
        yield f"| {' | '.join([size, own, *others])} |"
    yield ""
    best = [max(rival.freed for rival in row.rivals.values()) for row in rows]
    fewer, more = (sum(wins) for wins in zip(*((r.freed < b, r.freed > b) for r, b in zip(rows, best, strict=True)), strict=True))
    yield f"Against the better of both: fewer nodes freed in {fewer} of {len(rows)} clusters, more in {more}."
    for name in names:
        ratios = [ratio for row in rows if (ratio := row.rivals[name].ratio) is not None]
        missed = sum(row.rivals[name].ours is None and row.rivals[name].freed > row.before for row in rows)
        yield f"Moves for as many freed nodes over those of {name}, median: {_median(ratios)}; not reached in {missed}."


def _shown(value: int | None) -> str:
    return "-" if value is None else str(value)


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _median(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({len(values)} pairs)" if values else "- (no pair)"
