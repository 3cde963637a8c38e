"""A rollout as quotas and LimitRanges see it: new pods are counted, and each has a node as soon as it is created.

That is the most that a scheduler can do for a rollout. Where it comes to a halt even so, no choice of nodes helps, as long as all old
pods use the same of every quota: then it does not matter which of them go.
"""

from __future__ import annotations

from models.cluster.rollout_admission import Book, Limits
from models.workloads.deployment_rollout import Old, creations, deletions
from solver.rollout.state import RolloutProblem


def halts(problem: RolloutProblem, lacking: int = 0) -> bool:
    """Return True if a quota or a LimitRange stops the rollout before all new pods are created.

    Args:
        problem: The rollout.
        lacking: Pods that the old ReplicaSet is to have and has not. Its controller makes them as soon as quotas admit them, and the
            Deployment's takes them back first.
    """
    return problem.admission.limits and _followed(problem, Book(problem.admission), lacking=lacking) is None


def raised(problem: RolloutProblem) -> Limits:
    """Return the least limits of quotas above those there are with which the rollout goes on, step by step; none where they do not help."""
    if problem.admission.never is not None:
        return {}
    found = _followed(problem, Book(problem.admission), raising=True)
    return {} if found is None else problem.admission.raised(found.limits)


def overtaken(problem: RolloutProblem) -> bool:
    """Return True if the rollout may halt because the old ReplicaSet takes what quotas leave.

    Where the replicas are raised together with the template, the Deployment controller scales the old ReplicaSet up before it makes a new
    one (pkg/controller/deployment/sync.go, scale).
    """
    lacking = problem.pace.replicas - len(problem.old)
    return bool(problem.old) and lacking > 0 and not problem.pace.recreate and halts(problem, lacking)


def _followed(problem: RolloutProblem, book: Book, *, raising: bool = False, lacking: int = 0) -> Book | None:
    """Return the book at the end of the rollout; None if it comes to a halt. ``raising``: its limits are raised where one is in the way."""
    pace, created, made = problem.pace, 0, 0
    places = {entry.index: k for k, entry in enumerate(problem.old)}
    family = max((entry.family for entry in problem.old), default=0)
    alive = [*problem.old, *(Old(-1 - k, "", None, False, family, (0, 0, 0, 0), (0, "")) for k in range(lacking))]
    while alive or created < pace.replicas:
        number = book.again(lacking - made)
        made += number
        due = creations(pace, len(alive), created)
        more = min(due, book.room())
        created += more
        book.new(more)
        going = {entry.index for entry in deletions(pace, alive, lambda _: 0, created)}
        for index in going & places.keys():
            book.old(places[index], -1)
        alive = [entry for entry in alive if entry.index not in going]
        lacking -= len(going - places.keys())
        back = max(0, made - lacking)
        made -= back
        book.give_back(back)
        if not number and not more and not going:
            if not raising or not due:
                return None
            book.admit_one()
    return book
