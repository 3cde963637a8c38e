"""A rollout as quotas and LimitRanges see it: new pods are counted, and each has a node as soon as it is created.

That is the most that a scheduler can do for a rollout. Where it comes to a halt even so, no choice of nodes helps, as long as all old
pods use the same of every quota: then it does not matter which of them go.
"""

from __future__ import annotations

from models.cluster.rollout_admission import Book, Limits
from models.workloads.deployment_rollout import creations, deletions
from solver.rollout.state import RolloutProblem


def halts(problem: RolloutProblem) -> bool:
    """Return True if a quota or a LimitRange stops the rollout before all new pods are created."""
    return problem.admission.limits and _followed(problem, Book(problem.admission), raising=False) is None


def raised(problem: RolloutProblem) -> Limits:
    """Return the least limits of quotas above those there are with which the rollout goes on, step by step; none where they do not help."""
    if problem.admission.never is not None:
        return {}
    found = _followed(problem, Book(problem.admission), raising=True)
    return {} if found is None else problem.admission.raised(found.limits)


def _followed(problem: RolloutProblem, book: Book, *, raising: bool) -> Book | None:
    """Return the book at the end of the rollout; None if it comes to a halt. ``raising``: its limits are raised where one is in the way."""
    pace, created = problem.pace, 0
    places = {entry.index: k for k, entry in enumerate(problem.old)}
    alive = list(problem.old)
    while alive or created < pace.replicas:
        due = creations(pace, len(alive), created)
        number = min(due, book.room())
        created += number
        book.new(number)
        going = deletions(pace, alive, lambda _: 0, created)
        for entry in going:
            book.old(places[entry.index], -1)
        gone = {entry.index for entry in going}
        alive = [entry for entry in alive if entry.index not in gone]
        if not number and not going:
            if not raising or not due:
                return None
            book.admit_one()
    return book
