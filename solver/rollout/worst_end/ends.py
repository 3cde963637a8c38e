"""The worst ends of a rollout, by constraint, with and without the remedy.

The problem is described in KEP-3243, "Respect PodTopologySpread after rolling upgrades"
(https://github.com/kubernetes/enhancements/tree/master/keps/sig-scheduling/3243-respect-pod-topology-spread-after-rolling-upgrades):
a constraint whose selector matches old and new pods counts both at each bind, and only the new ones stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from kubestow.solver.rollout.worst_end.bound import bounds
from kubestow.solver.rollout.worst_end.courses import CourseSearch, CourseSearchResult
from kubestow.solver.rollout.worst_end.reader import RolloutNumbers, RolloutReader
from kubestow.solver.rollout.worst_end.steps import Step

#: Maximum number of states to generate in one search.
MAX_STATES: Final = 20_000


def _never() -> bool:
    return False


@dataclass(frozen=True)
class SpreadEnd:
    """The worst end of a rollout for one topology spread constraint.

    Attributes:
        key: Its topologyKey.
        when: Its whenUnsatisfiable.
        max_skew: Its maxSkew.
        skew: The largest skew of an end that was found; None if none was found.
        bound: Upper bound on the skew of any end.
        counts: The matching pods at this end by domain, of domains that have pods.
        course: The steps to this end.
        numbers: The rollout that the steps refer to.
        exact: True if the scheduler's rules allow each step of the course. Otherwise some rules were left out.
        remedied: Upper bound on the skew of any end with ``matchLabelKeys: [pod-template-hash]``; None if it was not
            computed, or if no rollout completes with it.
    """

    key: str
    when: Literal["DoNotSchedule", "ScheduleAnyway"]
    max_skew: int
    skew: int | None
    bound: int
    counts: dict[str, int]
    course: list[Step]
    numbers: RolloutNumbers
    exact: bool
    remedied: int | None = None

    @property
    def exceeds(self) -> bool:
        """True if an end was found that exceeds maxSkew."""
        return self.skew is not None and self.skew > self.max_skew


@dataclass(frozen=True)
class WorstEnds:
    """The computation of worst ends.

    Attributes:
        reader: The rollouts.
        states: Maximum number of states to generate in one search.
        over: Returns True if the time is up.
    """

    reader: RolloutReader
    states: int = MAX_STATES
    over: Callable[[], bool] = _never

    def of(self, k: int) -> list[SpreadEnd]:
        """Return the worst end for each constraint of a Deployment that counts old and new pods.

        With the strategy Recreate, pods of both revisions never run together, and the list is empty.
        """
        start = self.reader.starts[k]
        if start.pace.recreate or not start.pace.replicas:
            return []
        return [end for follow in (False, True) for end in self._ends(k, follow=follow)]

    def _ends(self, k: int, *, follow: bool) -> list[SpreadEnd]:
        numbers = self.reader.read(k, follow=follow)
        gauges = numbers.problem.gauges
        if not any(topic.mixes for topic in gauges):
            return []
        found, limits = self._searched(numbers, enough=False)
        exceeding = any(s is not None and s > t.max_skew for s, t in zip(found.skews, gauges, strict=True) if t.mixes)
        remedied = self._remedied(k, follow=follow) if exceeding else {}
        ends = []
        for i, topic in enumerate(gauges):
            if topic.mixes:
                skew = found.skews[i]
                counts = numbers.problem.counts(topic, found.ends[i]) if skew is not None else []
                there = {name: count for name, count in zip(topic.names, counts, strict=False) if count}
                ends.append(
                    SpreadEnd(
                        topic.key, "ScheduleAnyway" if follow else "DoNotSchedule", topic.max_skew, skew, limits[i], there,
                        found.courses[i], numbers, numbers.problem.exact, remedied.get(topic.key),
                    )
                )  # fmt: skip
        return ends

    def _remedied(self, k: int, *, follow: bool) -> dict[str, int]:
        """Return the bounds by topologyKey with ``matchLabelKeys: [pod-template-hash]`` in every constraint of the template."""
        numbers = self.reader.read(k, follow=follow, remedied=True)
        found, limits = self._searched(numbers, enough=True)
        return {
            topic.key: limit for topic, skew, limit in zip(numbers.problem.gauges, found.skews, limits, strict=True) if skew is not None
        }

    def _searched(self, numbers: RolloutNumbers, *, enough: bool) -> tuple[CourseSearchResult, list[int]]:
        """Return the result of the search, and the smaller of both bounds by gauge.

        Args:
            enough: True if a bound within maxSkew is enough, so that only one end is needed.
        """
        limits, gauges = bounds(numbers.problem), numbers.problem.gauges
        targets = [
            -1 if not topic.new or (enough and limit <= topic.max_skew) else limit for topic, limit in zip(gauges, limits, strict=True)
        ]
        found = CourseSearch(numbers.problem, targets, self.states, self.over).run()
        # If rules were left out, the scheduler may follow a soft constraint to nodes that the search did not try.
        if found.exhausted and (numbers.problem.exact or not numbers.problem.follow):
            limits = [limit if skew is None else skew for limit, skew in zip(limits, found.skews, strict=True)]
        return found, limits
