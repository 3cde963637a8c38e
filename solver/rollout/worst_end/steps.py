"""The next steps of a rollout: binds that the scheduler may make, and pods that the controllers may delete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from kubestow.solver.rollout.worst_end.permutations import NodePermutations
from kubestow.solver.rollout.worst_end.problem import Content, WorstEndProblem

#: The (node, kind) of old pods that are deleted together.
Deleted = tuple[tuple[int, int], ...]
#: A step of a course: the node that a new pod gets, or the old pods that are deleted.
Step = int | Deleted
#: Maximum number of sets of old pods that are tried in one scale-down of a large rollout.
MAX_SETS: Final = 4
_Marks = Counter[tuple[int, int]]


class RolloutSteps:
    """The steps of one rollout, one of each set that permutations map to each other.

    With ``smallest``, old ReplicaSets are scaled down by the smallest possible number of pods only, and by few sets of pods.
    """

    def __init__(self, problem: WorstEndProblem, permutations: NodePermutations, *, smallest: bool) -> None:
        self.problem, self.permutations, self.smallest = problem, permutations, smallest

    def after(self, contents: tuple[Content, ...]) -> Iterator[tuple[Step, tuple[Content, ...]]]:
        """Yield each next step, with the contents of the nodes after it.

        The scheduler binds a pod that was created, or the Deployment's controller scales the old ReplicaSets down.
        """
        pace = self.problem.pace
        alive = sum(sum(content[:-1]) for content in contents)
        placed = sum(content[-1] for content in contents)
        if placed < min(pace.replicas, pace.most - alive):
            for n in self.permutations.distinct(self.problem.accepts(contents), contents):
                yield n, _changed(contents, n, len(self.problem.kinds), 1)
        if alive:
            possible = scale_downs(self.problem, contents, placed)
            for numbers in possible[:1] if self.smallest else possible:
                frontier: list[tuple[Deleted, tuple[Content, ...]]] = [((), contents)]
                for family, number in numbers:
                    frontier = [found for chosen in frontier for found in self._deletions(contents, family, number, chosen)]
                yield from frontier

    def _deletions(
        self, contents: Sequence[Content], family: int, number: int, chosen: tuple[Deleted, tuple[Content, ...]]
    ) -> list[tuple[Deleted, tuple[Content, ...]]]:
        """Return each set of old pods of a family that its ReplicaSet's controller may delete together.

        The ranking by state, deletion cost and pods on the node is certain. Among pods that it ranks equally, any may go.

        Args:
            contents: The contents of the nodes when the controllers rank the pods.
            number: The number of pods to delete.
            chosen: Pods of other families that are deleted at the same time, and the contents without them.
        """
        ranked: dict[tuple[tuple[int, ...], int], _Marks] = {}
        for n, content in enumerate(contents):
            for k, kind in enumerate(self.problem.kinds):
                if kind.family == family and content[k]:
                    together = sum(content) if kind.assigned else 0
                    ranked.setdefault((kind.before, -together), Counter())[n, k] += content[k]
        frontier = [chosen]
        for rank in sorted(ranked):
            group = [(*found, ranked[rank]) for found in frontier]
            for _ in range(min(number, ranked[rank].total())):
                number -= 1
                group = self._one_less(group)
            frontier = [(deleted, now) for deleted, now, _ in group]
        return frontier

    def _one_less(self, group: list[tuple[Deleted, tuple[Content, ...], _Marks]]) -> list[tuple[Deleted, tuple[Content, ...], _Marks]]:
        """Return each way to delete one more pod of equally ranked ones. The marks are the pods left to choose from."""
        found: dict[object, tuple[Deleted, tuple[Content, ...], _Marks]] = {}
        kinds = range(len(self.problem.kinds))
        for deleted, now, marks in group:
            marked = _with_marks(now, marks, len(kinds))
            for k in kinds:
                for n in self.permutations.distinct([m for m, j in marks if j == k], marked):
                    after, left = _changed(now, n, k, -1), marks - Counter({(n, k): 1})
                    key = self.permutations.canonical(_with_marks(after, left, len(kinds))) if len(group) > 1 else (n, k)
                    found.setdefault(key, ((*deleted, (n, k)), after, left))
                    if self.smallest and len(found) >= MAX_SETS:
                        return list(found.values())
        return list(found.values())


def _changed(contents: tuple[Content, ...], n: int, k: int, by: int) -> tuple[Content, ...]:
    """Return the contents with more pods of one kind on a node."""
    content = contents[n]
    return (*contents[:n], (*content[:k], content[k] + by, *content[k + 1 :]), *contents[n + 1 :])


def _with_marks(contents: Sequence[Content], marks: _Marks, kinds: int) -> tuple[Content, ...]:
    return tuple((*content, *(marks[n, k] for k in range(kinds))) for n, content in enumerate(contents))


def scale_downs(problem: WorstEndProblem, contents: Sequence[Content], placed: int) -> list[tuple[tuple[int, int], ...]]:
    """Return the possible numbers of old pods to delete by family, one for each number of new pods that may be available.

    Source: pkg/controller/deployment/rolling.go (cleanupUnhealthyReplicas, scaleDownOldReplicaSetsForRollingUpdate).
    """
    total: dict[int, int] = {}
    ailing: dict[int, int] = {}
    for content in contents:
        for number, kind in zip(content, problem.kinds, strict=False):
            total[kind.family] = total.get(kind.family, 0) + number
            ailing[kind.family] = ailing.get(kind.family, 0) + number * (not kind.available)
    found: dict[tuple[tuple[int, int], ...], None] = {}
    for available in range(placed + 1):
        spare = sum(total.values()) + available - problem.pace.least
        take = {}
        for family in sorted(total):
            take[family] = min(max(spare, 0), ailing[family])
            spare -= take[family]
        excess = sum(total.values()) - sum(ailing.values()) + available - problem.pace.least
        for family in take:
            more = max(0, min(excess, total[family] - take[family]))
            take[family] += more
            excess -= more
        if any(take.values()):
            found.setdefault(tuple((family, k) for family, k in take.items() if k))
    return list(found)
