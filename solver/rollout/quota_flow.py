"""The course of a rollout under quotas and LimitRanges alone: each new pod counts, and has a node as soon as it is created.

That is the best a scheduler can do. If it halts even so, no choice of nodes helps. This holds only if all old pods use the same of every
quota, so that it does not matter which pods leave.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubestow.models.cluster.rollout_admission import Book, Limits, RolloutAdmission
from kubestow.models.workloads.deployment_rollout import Old, Pace, creations, deletions
from kubestow.solver.rollout.state import RolloutProblem


def halts(admission: RolloutAdmission, pace: Pace, old: Sequence[Old], lacking: int = 0) -> bool:
    """Return True if a quota or a LimitRange stops a rollout before all new pods are created.

    Args:
        admission: The limits on its pods.
        pace: Its strategy.
        old: Its old pods.
        lacking: Number of pods that the old ReplicaSet lacks. Its controller creates them as soon as quotas
            admit them, and the Deployment's controller removes them first.
    """
    return admission.limits and _followed(Book(admission), pace, old, lacking=lacking) is None


def raised(admission: RolloutAdmission, pace: Pace, old: Sequence[Old]) -> Limits:
    """Return the smallest raised quota limits with which the rollout completes, step by step; none if raising does not help."""
    if admission.never is not None or not admission.limits:
        return {}
    book = _followed(Book(admission), pace, old, raising=True)
    return {} if book is None else admission.raised(book.limits)


def overtaken(problem: RolloutProblem) -> bool:
    """Return True if the rollout may halt because the old ReplicaSet consumes the remaining quota.

    If the replicas are raised together with the template, the Deployment controller scales the old ReplicaSet
    up before it creates a new one (pkg/controller/deployment/sync.go, scale).
    """
    lacking = problem.pace.replicas - len(problem.old)
    if not problem.old or lacking <= 0 or problem.pace.recreate:
        return False
    return halts(problem.admission, problem.pace, problem.old, lacking)


def _followed(book: Book, pace: Pace, old: Sequence[Old], *, raising: bool = False, lacking: int = 0) -> Book | None:
    """Return the book at the end of the rollout; None if it halts.

    Args:
        raising: True to raise a limit that is in the way.
    """
    created, made = 0, 0
    places = {entry.index: k for k, entry in enumerate(old)}
    family = max((entry.family for entry in old), default=0)
    alive = [*old, *(Old(-1 - k, "", None, False, family, (0, 0, 0, 0), (0, "")) for k in range(lacking))]
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
