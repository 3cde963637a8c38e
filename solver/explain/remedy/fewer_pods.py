"""How many pods of a unit can be placed at most: replicas of one workload, or members of a gang."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from models.disruption.owners import Owners, name
from models.documents.placement import Remedy
from models.workloads.ownership import named
from solver import rules
from solver.explain.conflict.placement_question import PlacementQuestion
from solver.explain.remedy.apply import applied, gang_of, running
from solver.explain.remedy.time_slices import TimeSlices
from solver.rules.placement_model import build_model

#: Numbers below the model's bound that are tried.
TRIES = 8
#: Kinds whose replicas can be set.
SCALABLE = frozenset({"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "Job"})


def replicas(unit: PlacementQuestion, clock: TimeSlices, share: float) -> list[Remedy]:
    """For each workload of the unit the most pods of it, at least one, that can be placed with all pods of the others. Nothing where the
    unit, or its gang by a minimum, need not be whole. ``share``: of the whole time, for all questions together."""
    gang = gang_of(unit)
    if unit.needed < len(unit.pods) or (gang is not None and gang.minimum is not None):
        return []
    owners = {o: pods for o, pods in Owners(unit.snapshot).group(unit.pods).items() if o.partition(" ")[0] in SCALABLE and len(pods) > 1}
    section = clock.section(share)
    found = []
    for owner, pods in owners.items():
        held = len(running(unit, owner))

        def reduced(n: int, owner: str = owner, held: int = held, total: int = len(pods)) -> Remedy:
            message = f"run {held + n} replica{'s' if held + n != 1 else ''} of {name(owner)} instead of {held + total}"
            arguments = {"workload": owner, "to": str(held + n), "from": str(held + total)}
            kind, _, key = owner.partition(" ")
            if named(unit.snapshot, kind, *key.split("/", 1)) is None:  # the command line knows only what the input has
                return Remedy("reduceReplicas", message, arguments)
            option = f"{kind}/{key}={held + n}"
            return Remedy("reduceReplicas", message, arguments, ["--replicas", option])

        way = _most(unit, pods, section, 1 / len(owners), reduced)
        if way is not None:
            found.append(way)
    return found


def members(unit: PlacementQuestion, clock: TimeSlices, share: float) -> Remedy | None:
    """The most members of the unit's gang that can be placed, at least one, as its min-member: where it has one already, or where no single
    workload makes up the gang."""
    gang = gang_of(unit)
    if gang is None or unit.needed < 2:
        return None
    owners = Owners(unit.snapshot).group(unit.pods)
    if gang.minimum is None and len(owners) == 1 and next(iter(owners)).partition(" ")[0] in SCALABLE:
        return None  # replicas say it
    held = len(gang.bound)

    def lowered(n: int) -> Remedy:
        total = held + len(unit.pods)
        message = f"lower min-member of gang {gang.name} from {held + unit.needed} to {held + n} (of {total} pods)"
        arguments = {"gang": gang.name, "to": str(held + n), "from": str(held + unit.needed)}
        return Remedy("lowerMinMember", message, arguments)

    return _most(unit, None, clock.section(share), 1.0, lowered)


def _most(unit: PlacementQuestion, pods: Sequence[int] | None, section: TimeSlices, share: float, way: object) -> Remedy | None:
    """The way out with the greatest number that works. The model's optimum bounds it from above; the number itself is proved on the
    changed objects, since which pods a controller would not make is not free. ``pods``: those that may be left out (None: any)."""
    assert callable(way)
    bound = _bound(unit, pods, section, share)
    if bound is None:
        return None
    n, sure = bound
    for _ in range(TRIES):
        if n < 1:
            return None
        found: Remedy = way(n)
        answer = section.ask(applied(unit, found), share / 2)
        if answer:
            if not sure:
                found.arguments["most"] = "unproved"
            return found
        sure &= answer is False
        n -= 1
    return None


def _bound(unit: PlacementQuestion, pods: Sequence[int] | None, section: TimeSlices, share: float) -> tuple[int, bool] | None:
    """How many of ``pods`` (None: of all) a model places at most, less than all, with all others placed; and whether it is the optimum."""
    cluster = unit.cluster()
    if not cluster.n_nodes:
        return None
    cluster = replace(cluster, gangs=[replace(gang, needed=0) for gang in cluster.gangs])
    encoding = build_model(cluster, rules.build(cluster))
    free = set(unit.pods if pods is None else pods)
    for g, cls in enumerate(cluster.classes):
        others = sum(i not in free for i in cls.pods)
        if encoding.fits[g] < others:
            return None
        encoding.model.add(encoding.left[g] <= encoding.fits[g] - others)
    others = len(unit.pods) - len(free)
    left = encoding.sum(list(encoding.left.values()))
    top = min(sum(encoding.fits) - others, (unit.needed if pods is None else len(free)) - 1)
    encoding.model.add(left >= sum(encoding.fits) - others - top)
    encoding.model.minimize(left)
    answer = section.solve(encoding.model, share / 2)
    if answer.solution is None:
        return None
    placed = sum(encoding.fits) - others - sum(answer.solution[v.index] for v in encoding.left.values())
    bound = top if answer.bound is None else sum(encoding.fits) - others - answer.bound
    return placed, bound == placed
