"""Remedies with fewer pods: the largest number of replicas of one workload, or of members of a gang, that can be placed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kubestow.models.documents.placement import Remedy
from kubestow.models.workloads.ownership import PodOwners, name, named
from kubestow.solver import rules
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.remedy.apply import applied, gang_of, running
from kubestow.solver.explain.remedy.time_slices import TimeSlices
from kubestow.solver.rules.placement_model import build_model

#: Maximum number of values below the model's bound that are tried.
MAX_TRIALS = 8
#: Kinds with a settable number of replicas.
SCALABLE = frozenset({"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "Job"})


def replicas(question: PlacementQuestion, clock: TimeSlices, share: float) -> list[Remedy]:
    """Return for each workload the most pods, at least one, that can be placed with all pods of the others.

    Return nothing if not all pods are needed, or their gang has a minimum.

    Args:
        share: Fraction of the whole time for all queries together.
    """
    gang = gang_of(question)
    if question.needed < len(question.pods) or (gang is not None and gang.minimum is not None):
        return []
    owners = {
        o: pods
        for o, pods in PodOwners(question.snapshot).group(question.pods).items()
        if o.partition(" ")[0] in SCALABLE and len(pods) > 1
    }
    section = clock.section(share)
    remedies = []
    for owner, pods in owners.items():
        n_running = len(running(question, owner))

        def reduced(n: int, owner: str = owner, n_running: int = n_running, total: int = len(pods)) -> Remedy:
            message = f"run {n_running + n} replica{'s' if n_running + n != 1 else ''} of {name(owner)} instead of {n_running + total}"
            arguments = {"workload": owner, "to": str(n_running + n), "from": str(n_running + total)}
            kind, _, key = owner.partition(" ")
            if named(question.snapshot, kind, *key.split("/", 1)) is None:  # the command line accepts only workloads of the input
                return Remedy("reduceReplicas", message, arguments)
            option = f"{kind}/{key}={n_running + n}"
            return Remedy("reduceReplicas", message, arguments, ["--replicas", option])

        remedy = _most(question, pods, section, 1 / len(owners), reduced)
        if remedy is not None:
            remedies.append(remedy)
    return remedies


def members(question: PlacementQuestion, clock: TimeSlices, share: float) -> Remedy | None:
    """Return the most members of the pods' gang that can be placed, at least one, as its min-member.

    Applies if the gang has a minimum, or if no single workload makes up the gang.
    """
    gang = gang_of(question)
    if gang is None or question.needed < 2:
        return None
    owners = PodOwners(question.snapshot).group(question.pods)
    if gang.minimum is None and len(owners) == 1 and next(iter(owners)).partition(" ")[0] in SCALABLE:
        return None  # covered by replicas
    n_bound = len(gang.bound)

    def lowered(n: int) -> Remedy:
        total = n_bound + len(question.pods)
        message = f"lower min-member of gang {gang.name} from {n_bound + question.needed} to {n_bound + n} (of {total} pods)"
        arguments = {"gang": gang.name, "to": str(n_bound + n), "from": str(n_bound + question.needed)}
        return Remedy("lowerMinMember", message, arguments)

    return _most(question, None, clock.section(share), 1.0, lowered)


def _most(
    question: PlacementQuestion, pods: Sequence[int] | None, section: TimeSlices, share: float, remedy_for: Callable[[int], Remedy]
) -> Remedy | None:
    """Return the remedy with the largest number that works.

    The model's optimum is an upper bound. The number is proved on the changed objects, because a controller
    determines which pods it does not create.

    Args:
        pods: Pods that may be left out; None for any.
    """
    bound = _bound(question, pods, section, share)
    if bound is None:
        return None
    n, sure = bound
    for _ in range(MAX_TRIALS):
        if n < 1:
            return None
        remedy = remedy_for(n)
        answer = section.ask(applied(question, remedy), share / 2)
        if answer:
            if not sure:
                remedy.arguments["most"] = "unproved"
            return remedy
        sure &= answer is False
        n -= 1
    section.leave_open()
    return None


def _bound(question: PlacementQuestion, pods: Sequence[int] | None, section: TimeSlices, share: float) -> tuple[int, bool] | None:
    """Return the most ``pods`` (None: of all) that a model places, fewer than all, with all others placed, and True if it is optimal."""
    cluster = question.cluster()
    if not cluster.n_nodes:
        return None
    cluster = replace(cluster, gangs=[replace(gang, needed=0) for gang in cluster.gangs])
    encoding = build_model(cluster, rules.build(cluster))
    free = set(question.pods if pods is None else pods)
    for g, cls in enumerate(cluster.classes):
        others = sum(i not in free for i in cls.pods)
        if encoding.fits[g] < others:
            return None
        encoding.model.add(encoding.unplaced[g] <= encoding.fits[g] - others)
    others = len(question.pods) - len(free)
    unplaced = encoding.sum(list(encoding.unplaced.values()))
    top = min(sum(encoding.fits) - others, (question.needed if pods is None else len(free)) - 1)
    encoding.model.add(unplaced >= sum(encoding.fits) - others - top)
    encoding.model.minimize(unplaced)
    answer = section.solve(encoding.model, share / 2)
    if answer.solution is None:
        return None
    placed = sum(encoding.fits) - others - sum(answer.solution[v.index] for v in encoding.unplaced.values())
    bound = top if answer.bound is None else sum(encoding.fits) - others - answer.bound
    return placed, bound == placed
