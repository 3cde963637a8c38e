"""From class-level steps in waves to moves of named pods, each with the reason it is made for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from models import kube
from models.cluster import Ints
from models.plan import Eviction, Move
from models.selectors import Bools
from solver.plan.case import Case, Step

#: Why pods of a class leave a node: (class, node it leaves, node it gets or -1) -> sentence.
Reason = Callable[[int, int, int], str]


def deal(case: Case, waves: Sequence[Sequence[Step]], units: Sequence[bool], reason: Reason) -> tuple[list[Move], list[Eviction]]:
    """Moves and evictions by step. Of a class the pods that never moved leave first, in input order. ``units``: by wave, whether its
    bindings are one unit of a gang."""
    pods, names = case.cluster.snapshot.pods, case.cluster.nodes.names
    index = {name: n for n, name in enumerate(names)}
    resting: dict[tuple[int, int], list[int]] = {}
    for g in range(case.cluster.n_classes):
        for i in reversed(case.cluster.classes[g].pods):
            resting.setdefault((g, -1 if case.pending[g] else index[pods[i].spec.nodeName or ""]), []).append(i)
    moved: dict[tuple[int, int], list[int]] = {}
    last: dict[int, int] = {}  # pod -> index of its last move in `moves`
    moves: list[Move] = []
    evictions: list[Eviction] = []
    number = 0
    for wave, (steps, unit) in enumerate(zip(waves, units, strict=True), 1):
        number += unit
        for step in steps:
            gang = case.cluster.classes[step.g].gang if case.pending[step.g] else None
            for _ in range(step.k):
                i = (resting.get((step.g, step.a)) or moved[step.g, step.a]).pop()
                number += not unit
                key, why = kube.pod_key(pods[i]), reason(step.g, step.a, step.b)
                if step.b < 0:
                    evictions.append(Eviction(number, wave, key, names[step.a], why))
                    continue
                if i in last:
                    moves[last[i]].stopover = True
                last[i] = len(moves)
                source = names[step.a] if step.a >= 0 else None
                gang_name = case.cluster.gangs[gang].name if gang is not None else None
                moves.append(Move(number, wave, key, source, names[step.b], why, gang=gang_name))
                moved.setdefault((step.g, step.b), []).append(i)
    for move in moves:
        if move.stopover:
            move.reason = "stops over to make room"
    return moves, evictions


class Reasons:
    """Why each move is made, told from the start and the end of a plan. ``broken``: by (class, node), the rules that pods break there at
    the start; ``freed``: bool[N], nodes that the plan frees; ``goals``: of the plan."""

    def __init__(self, case: Case, end: Ints, broken: dict[tuple[int, int], list[str]], freed: Bools, goals: Sequence[str]) -> None:
        self.case, self.end, self.broken, self.freed, self.goals = case, end, broken, freed, goals

    def __call__(self, g: int, a: int, b: int) -> str:
        case = self.case
        if case.pending[g]:
            return "is pending"
        name = case.cluster.nodes.names[a]
        if case.closed[a]:
            return f"{name} is drained"
        rules = self.broken.get((g, a))
        if rules and "repair" in self.goals:
            return f"breaks {', '.join(rules)} on {name}"
        if self.freed[a] and "consolidate" in self.goals:
            return f"frees {name}"
        admitted = np.flatnonzero(case.pending & (self.end[:, a] > 0)).tolist() if "admit" in self.goals else []
        if admitted:
            first = case.cluster.snapshot.pods[case.cluster.classes[admitted[0]].pods[0]]
            return f"makes room on {name} for {kube.pod_key(first)}" + (" and others" if len(admitted) > 1 else "")
        if "improve" in self.goals:
            return "better preferences or balance"
        return f"makes room on {name}"
