"""Upper bounds on the skew of a constraint at the end of a rollout, without a search.

When the last new pod of a domain is bound there, the domain holds c matching pods, itself included. A DoNotSchedule
constraint then requires c ≤ m + maxSkew, where m is the global minimum. Each of the D - 1 other domains holds at
least m pods, and all domains together hold at most T = (other matching pods) + replicas + maxSurge. So
c ≤ maxSkew + ⌊(T - c) / (D - 1)⌋. In the end, no domain that got a new pod holds more than the largest such c.

If the constraint counts no old pods, no count ever falls. Then c ≤ m + maxSkew still holds in the end.
"""

from __future__ import annotations

from kubestow.solver.rollout.worst_end.problem import SpreadTopic, WorstEndProblem


def bounds(problem: WorstEndProblem) -> list[int]:
    """Return an upper bound on the skew at any end, by gauge. docs/rollouts.md has the proof."""
    return [_bound(problem, i) for i in range(len(problem.gauges))]


def _bound(problem: WorstEndProblem, i: int) -> int:
    topic, replicas = problem.gauges[i], problem.pace.replicas
    size = len(topic.base)
    inside, outside = [0] * size, 0
    for n, room in enumerate(problem.room):
        slots = min(replicas, room[0])
        if topic.domain[n] >= 0 and topic.eligible[n] and topic.counted[topic.domain[n]]:
            inside[topic.domain[n]] += slots
        else:
            outside += slots
    total = sum(inside) + outside
    highest, lowest = [], []
    for d in range(size):
        if topic.counted[d]:
            arriving = min(replicas, inside[d]) * topic.new
            most = _most_at_bind(problem, topic, d, inside)
            highest.append(max(topic.base[d], topic.base[d] + arriving if most is None else min(topic.base[d] + arriving, most)))
            lowest.append(topic.base[d] + max(0, replicas - (total - inside[d])) * topic.new)
    # The others hold no more than their highest counts, so the rest is in the lowest domain.
    there = sum(base for base, counted in zip(topic.base, topic.counted, strict=True) if counted)
    there += max(0, replicas - outside) * topic.new
    lowest = [max(low, there - (sum(highest) - high)) for low, high in zip(lowest, highest, strict=True)]
    least = 0 if topic.few else min(lowest if topic.idle is None else [*lowest, topic.idle], default=0)
    found = max(highest, default=0) - least
    skew = None if any(topic.old) else _skew_at_bind(problem, topic)
    return found if skew is None else min(found, max(skew, topic.skew(topic.base)))


def _skew_at_bind(problem: WorstEndProblem, topic: SpreadTopic) -> int | None:
    """Return the largest skew that a domain has right after a new pod was bound there; None if there is no limit."""
    if not problem.follow:
        return topic.max_skew
    return 1 if _always_open(problem, topic) else None  # the scheduler chooses a domain with the fewest pods


def _most_at_bind(problem: WorstEndProblem, topic: SpreadTopic, domain: int, inside: list[int]) -> int | None:
    """Return the largest number of matching pods in a domain right after a new pod was bound there; None if there is no limit."""
    skew = _skew_at_bind(problem, topic)
    if skew is None or not topic.new:
        return None
    if topic.few:
        return skew
    others = [d for d in range(len(topic.base)) if topic.counted[d] and d != domain]
    if not others and topic.idle is None:
        return None
    old = sum(sum(content[:-1]) for content in problem.start)
    counting = max(problem.pace.most, old) if any(topic.old) else problem.pace.replicas
    total = sum(base for base, counted in zip(topic.base, topic.counted, strict=True) if counted) + counting
    # No other domain ever holds more than its pods of the start and all that may come.
    start = problem.counts(topic, problem.start)
    ceiling = min([start[d] + min(problem.pace.replicas, inside[d]) for d in others], default=total)
    if topic.idle is not None:
        ceiling = min(ceiling, topic.idle)
    if not others:
        return ceiling + skew
    # c ≤ skew + (total - c) // k for k other domains holds up to c = (total + k * skew) // (k + 1).
    even = (total + len(others) * skew) // (len(others) + 1)
    return min(even, ceiling + skew)


def _always_open(problem: WorstEndProblem, topic: SpreadTopic) -> bool:
    """Return True if every counted domain has a node that accepts each new pod at any time, and nothing but ``topic`` guides the choice."""
    if problem.hard or len(problem.soft) > 1 or topic.idle is not None or not problem.exact:
        return False
    free = [0] * len(topic.base)
    for n, room in enumerate(problem.room):
        if topic.domain[n] >= 0:
            free[topic.domain[n]] = max(free[topic.domain[n]], min(room))
    return all(slots >= problem.pace.replicas for slots, counted in zip(free, topic.counted, strict=True) if counted)
