"""The search over all courses of a rollout for the end with the largest skew.

A state is the number of old and new pods on each node. Its permutations count as the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kubestow.solver.rollout.worst_end.permutations import NodePermutations
from kubestow.solver.rollout.worst_end.problem import Content, State, WorstEndProblem
from kubestow.solver.rollout.worst_end.steps import RolloutSteps, Step

#: Maximum number of replicas for which all courses are searched.
MAX_EXACT_REPLICAS: Final = 12
#: Maximum number of states to generate for each replica of a larger rollout.
LARGE_STATES_PER_REPLICA: Final = 40


@dataclass
class CourseSearchResult:
    """The result of a search.

    Attributes:
        skews: The largest skew found at an end, by gauge; None if no end was found.
        ends: The contents of the nodes at that end, by gauge.
        courses: The steps to that end, by gauge.
        exhausted: True if every course was searched.
    """

    skews: list[int | None]
    ends: list[tuple[Content, ...]]
    courses: list[list[Step]]
    exhausted: bool


@dataclass(frozen=True, slots=True)
class _Reached:
    """A state that was reached: the contents of each node, the state before it, and the step from there."""

    contents: tuple[Content, ...]
    before: _Reached | None
    step: Step

    def course(self) -> list[Step]:
        """Return the steps from the start."""
        steps: list[Step] = []
        reached = self
        while reached.before is not None:
            steps.append(reached.step)
            reached = reached.before
        return steps[::-1]


class CourseSearch:
    """A depth-first search over the states of a rollout.

    It goes first where one domain keeps its old pods longest, so that it gets the fewest new ones. Large rollouts have too
    many courses. For them, only courses are searched in which old pods go in the smallest possible numbers.
    """

    def __init__(self, problem: WorstEndProblem, targets: Sequence[int], states: int, over: Callable[[], bool]) -> None:
        """Start a search.

        Args:
            targets: The search ends once every gauge has an end of at least this skew.
            states: Maximum number of states to generate, each counted as often as it is found.
            over: Returns True if the time is up.
        """
        self.problem, self.targets, self.over = problem, targets, over
        self.large = problem.pace.replicas > MAX_EXACT_REPLICAS
        self.states = min(states, LARGE_STATES_PER_REPLICA * problem.pace.replicas) if self.large else states
        self.permutations = NodePermutations(problem)
        self.steps = RolloutSteps(problem, self.permutations, smallest=self.large)
        self.seen: dict[State, _Reached] = {}

    def run(self) -> CourseSearchResult:
        """Return the worst ends found."""
        problem, canonical = self.problem, self.permutations.canonical
        first = _Reached(problem.start, None, ())
        self.seen[canonical(problem.start)] = first
        stack, generated, done = [first], 0, False
        best: list[tuple[int, _Reached] | None] = [None] * len(problem.gauges)
        while stack and not done and generated <= self.states and not self.over():
            reached = stack.pop()
            if self._ended(reached.contents):
                for i, topic in enumerate(problem.gauges):
                    skew, known = topic.skew(problem.counts(topic, reached.contents)), best[i]
                    if known is None or skew > known[0]:
                        best[i] = skew, reached
                done = all(found is not None and found[0] >= target for found, target in zip(best, self.targets, strict=True))
                continue
            fresh = []
            for step, contents in self.steps.after(reached.contents):
                generated += 1
                after = _Reached(contents, reached, step)
                if self.seen.setdefault(canonical(contents), after) is after:
                    fresh.append(after)
            stack += sorted(fresh, key=lambda each: self._promise(each.contents))
        return CourseSearchResult(
            [None if found is None else found[0] for found in best],
            [() if found is None else found[1].contents for found in best],
            [[] if found is None else found[1].course() for found in best],
            not (stack or done or self.large),
        )

    def _ended(self, contents: Sequence[Content]) -> bool:
        """Return True if all old pods are gone and all new ones placed."""
        return sum(content[-1] for content in contents) == self.problem.pace.replicas and not any(any(c[:-1]) for c in contents)

    def _promise(self, contents: Sequence[Content]) -> list[tuple[int, int]]:
        """Return by gauge the largest surplus of old over new pods in a domain, and the new pods of the fullest domain.

        Old pods keep new ones away from their domain, which is then empty in the end.
        """
        found = []
        for topic in self.problem.gauges:
            old, new = [0] * (len(topic.base) + 1), [0] * (len(topic.base) + 1)  # the last one is for nodes without a domain
            for domain, content in zip(topic.domain, contents, strict=True):
                old[domain] += sum(content[:-1])
                new[domain] += content[-1]
            surplus = max((o - n for o, n in zip(old[:-1], new[:-1], strict=True)), default=0)
            found.append((surplus, max(new[:-1], default=0)))
        return found
