"""Consolidation of worn clusters by plans and by two reference heuristics, which were fixed before the planner was tuned.

Free nodes count those that were free before. "Ours to as many" are the moves of the plan, in its order, until as many nodes are free as the
heuristic freed: a plan that frees more has to move more, and its order is not made for this. So a second plan may be asked for with
70 % of the heuristic's moves as its limit: "free with 70 %" are the nodes that it frees.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from instances.worn import Worn
from models.plan import RebalancePlan
from models.snapshot import Snapshot
from tests.benchmarks.consolidation_reference import HEURISTICS, State

_NODES: Final = (12, 20, 30, 40, 50, 60, 80, 100)
_FILLS: Final = (30, 40, 50, 65)
#: Percent of a heuristic's moves: the goal is to free as many nodes with them.
WITHIN: Final = 70


def cluster(number: int) -> Worn:
    """The worn cluster of a number: 8 sizes by 4 fills, then again with other seeds."""
    nodes, fill = _NODES[number % len(_NODES)], _FILLS[number // len(_NODES) % len(_FILLS)]
    return Worn(nodes, 9 * nodes, seed=number, fill=fill, gone=30 if fill > 55 else 40)


def trace(snapshot: Snapshot, steps: Iterable[tuple[str, str, str]]) -> list[int]:
    """How many nodes that may be freed are free at the start and after each step (pod, from, to)."""
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
    """What a heuristic reached. ``ours``: moves of the plan until as many nodes were free, None if it never came to that. ``within``: nodes
    that are free after a plan of :data:`WITHIN` percent of its moves, None if none was asked for."""

    freed: int
    moves: int
    ours: int | None
    within: int | None = None

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

    def per_node(self, freed: int, moves: int) -> float:
        """Moves for each node that was not free before."""
        return moves / (freed - self.before)


def compare(
    parameters: Worn, snapshot: Snapshot, plan: RebalancePlan, seconds: float, limited: Callable[[int], RebalancePlan] | None = None
) -> Compared:
    """The plan of a cluster beside what the heuristics reach there. ``limited``: makes a plan of so many moves at most."""
    ours = _free(snapshot, plan)
    rivals = {}
    for name, heuristic in HEURISTICS.items():
        theirs = heuristic(snapshot)
        at = next((i for i, free in enumerate(ours) if free >= len(theirs.nodes)), None)
        allowed = theirs.moves * WITHIN // 100
        within = None if limited is None or not allowed else _free(snapshot, limited(allowed))[-1]
        rivals[name] = Rival(len(theirs.nodes), theirs.moves, at, within)
    return Compared(parameters, ours[0], ours[-1], len(plan.moves), plan.waves, plan.status, seconds, rivals)


def _free(snapshot: Snapshot, plan: RebalancePlan) -> list[int]:
    ordered = sorted(plan.moves, key=lambda move: (move.wave, move.step))
    return trace(snapshot, ((move.pod, move.source or "", move.to) for move in ordered))


def table(rows: Sequence[Compared]) -> Iterator[str]:
    """A row for each cluster, then what they say together."""
    names = list(HEURISTICS)
    heads = "".join(f" {name}: free | moves | ours to as many | ratio | free with {WITHIN} % |" for name in names)
    yield f"| Nodes | Fill % | Seed | Free before | Plan: free | moves | waves | status | seconds |{heads}"
    yield f"|{'--:|' * (9 + 5 * len(names))}"
    for row in rows:
        size = f"{row.cluster.nodes} | {row.cluster.fill} | {row.cluster.seed}"
        own = f"{row.before} | {row.freed} | {row.moves} | {row.waves} | {row.status} | {row.seconds:.1f}"
        rivals = [row.rivals[name] for name in names]
        others = [f"{r.freed} | {r.moves} | {_shown(r.ours)} | {_ratio(r.ratio)} | {_shown(r.within)}" for r in rivals]
        yield f"| {' | '.join([size, own, *others])} |"
    yield ""
    best = [max(rival.freed for rival in row.rivals.values()) for row in rows]
    fewer, more = (sum(found) for found in zip(*((r.freed < b, r.freed > b) for r, b in zip(rows, best, strict=True)), strict=True))
    yield f"Against the better of both: fewer nodes freed in {fewer} of {len(rows)} clusters, more in {more}."
    for name in names:
        pairs = [(row, row.rivals[name]) for row in rows if row.rivals[name].moves]
        equal = [row.moves / rival.moves for row, rival in pairs if row.freed == rival.freed]
        until = [rival.ratio for _, rival in pairs if rival.ratio is not None]
        each = [row.per_node(row.freed, row.moves) / row.per_node(r.freed, r.moves) for row, r in pairs if row.freed > r.freed > row.before]
        yield f"Moves of the plan over those of {name}, medians: where both free as many nodes {_median(equal)}; until as many are free"
        yield f"{_median(until)}; per node freed, where the plan frees more, {_median(each)}."
        asked = [(rival.within, rival.freed) for _, rival in pairs if rival.within is not None]
        if asked:
            enough = sum(within >= freed for within, freed in asked)
            yield f"With {WITHIN} % of the moves of {name} plans free as many nodes or more in {enough} of {len(asked)} clusters."


def _shown(value: int | None) -> str:
    return "-" if value is None else str(value)


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _median(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({len(values)} pairs)" if values else "- (no pair)"
