"""Moves of named pods, each with its reason, from class-level steps in waves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from kubestow.models.documents.rebalance_plan import Eviction, Move
from kubestow.models.kube import objects
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step

#: The reason why pods of a class leave a node: (class, node, pods that the plan binds there) -> sentence.
Reason = Callable[[int, int, Sequence[str]], str]


def name_moves(
    problem: RebalanceProblem, waves: Sequence[Sequence[Step]], units: Sequence[bool], reason: Reason
) -> tuple[list[Move], list[Eviction]]:
    """Return moves and evictions by step. Of a class, pods that never moved leave first, in input order.

    Evicted pods leave in the order of ``problem.leaving``. ``units``: per wave, True if its bindings are one unit of a gang.
    """
    pods, names = problem.cluster.snapshot.pods, problem.cluster.nodes.names
    index = {name: n for n, name in enumerate(names)}
    resting: dict[tuple[int, int], list[int]] = {}
    for g in range(problem.cluster.n_classes):
        for i in reversed(problem.cluster.classes[g].pods):
            resting.setdefault((g, -1 if problem.pending[g] else index[pods[i].spec.nodeName or ""]), []).append(i)
    turn = {i: k for k, i in enumerate(problem.leaving)}
    moved: dict[tuple[int, int], list[int]] = {}
    last: dict[int, int] = {}  # pod -> index of its last move in `moves`
    now: set[int] = set()  # pods that moved in this wave
    bound: dict[int, list[str]] = {}  # node -> pending pods that get it
    leaving: list[tuple[Move | Eviction, int, int, int]] = []  # with pod, class and node
    moves: list[Move] = []
    evictions: list[Eviction] = []
    number = 0
    for wave, (steps, unit) in enumerate(zip(waves, units, strict=True), 1):
        number += unit
        now.clear()
        for step in steps:
            gang = problem.cluster.classes[step.g].gang if problem.pending[step.g] else None
            for _ in range(step.k):
                there = resting.get((step.g, step.a)) or moved[step.g, step.a]
                i = there.pop(_next_to_go(there, now, turn if step.b < 0 else {}))
                now.add(i)
                number += not unit
                key = objects.pod_key(pods[i])
                if step.b < 0:
                    evictions.append(Eviction(number, wave, key, names[step.a], ""))
                    leaving.append((evictions[-1], i, step.g, step.a))
                    continue
                if i in last:
                    moves[last[i]].stopover = True
                last[i] = len(moves)
                source = names[step.a] if step.a >= 0 else None
                gang_name = problem.cluster.gangs[gang].name if gang is not None else None
                moves.append(Move(number, wave, key, source, names[step.b], "is pending", gang=gang_name))
                if step.a >= 0:
                    leaving.append((moves[-1], i, step.g, step.a))
                else:
                    bound.setdefault(step.b, []).append(key)
                moved.setdefault((step.g, step.b), []).append(i)
    going = {i for _, i, _, _ in leaving}
    for entry, i, g, n in leaving:
        needed = problem.leaving.get(i, i)
        if isinstance(entry, Move) and entry.stopover:
            entry.reason = "stops over to make room"
        elif needed != i and needed in going:
            entry.reason = f"must run near {objects.pod_key(pods[needed])}, which leaves"
        else:
            entry.reason = reason(g, n, bound.get(n, ()))
            if isinstance(entry, Eviction) and i in problem.leaving:
                entry.reason += " (a rule that holds during execution)"
    return moves, evictions


def _next_to_go(there: Sequence[int], now: Collection[int], turn: Mapping[int, int]) -> int:
    """Return the list index of the pod that goes next; the list is consumed from its end.

    Pods that arrived in this wave (``now``) come last. Among the others, the first in ``turn`` goes.
    """
    if not turn and there[-1] not in now:
        return len(there) - 1
    return min(range(len(there)), key=lambda at: (there[at] in now, turn.get(there[at], len(turn)), -at))


class Reasons:
    """The reason for each move, from the start and the end of a plan.

    Attributes:
        broken: By (class, node), the rules that pods break there at the start.
        freed: Nodes that the plan frees, bool[N].
        goals: Goals of the plan.
    """

    def __init__(self, problem: RebalanceProblem, broken: dict[tuple[int, int], list[str]], freed: Bools, goals: Sequence[str]) -> None:
        self.problem, self.broken, self.freed, self.goals = problem, broken, freed, goals

    def __call__(self, g: int, a: int, bound: Sequence[str]) -> str:
        problem = self.problem
        name = problem.cluster.nodes.names[a]
        if problem.closed[a]:
            return f"{name} is drained"
        rules = self.broken.get((g, a))
        if rules and "repair" in self.goals:
            return f"breaks {', '.join(rules)} on {name}"
        if self.freed[a] and "consolidate" in self.goals:
            return f"frees {name}"
        if bound:
            return f"makes room on {name} for {bound[0]}" + (" and others" if len(bound) > 1 else "")
        if "improve" in self.goals:
            return "better preferences or balance"
        return f"makes room on {name}"
