"""Planted gangs as kubestow takes them, and checks of its answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from kubestow.checker.placement import Judge, verify
from kubestow.models.documents.placement import Assignment, Cause, Edits, Placement
from kubestow.models.edits.edits import apply
from kubestow.models.gangs import gangs
from kubestow.models.kube.objects import controller_of, pod_key
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.remedy.search import applied
from kubestow.solver.runtime.options import Options, Progress
from kubestow.solver.solve import place
from tests.benchmarks.bench_packing import PLACED_ONLY
from tests.instances.planted.gang_causes import Impossible
from tests.instances.planted.planted_gangs import Planted
from tests.solver.explain.questions import within


def expanded(instance: Planted | Impossible) -> Snapshot:
    """The snapshot with the pods of the manifests."""
    return apply(from_objects(instance.snapshot), from_objects(instance.manifests, manifests=True), Edits()).snapshot


def planted(instance: Planted, snapshot: Snapshot) -> list[Assignment]:
    """The planted placement as one unit: the pods of each workload in order on its nodes.

    Raises:
        ValueError: the snapshot has other pods to be placed than the planted ones.
    """
    left = {name: list(nodes) for name, nodes in instance.placement.items()}
    found = []
    for i in select(snapshot).pending:
        pod = snapshot.pods[i]
        owner = controller_of(pod)
        name = (pod.metadata.labels or {}).get("app", "")
        if owner is None or not owner.name.startswith(name) or not left.get(name):
            raise ValueError(f"{pod_key(pod)} is not planted")
        found.append(Assignment(pod_key(pod), left[name].pop(0), 1, gang=instance.gang))
    if any(left.values()):
        raise ValueError(f"no pods for {left}")
    return found


def refusals(snapshot: Snapshot, unit: list[Assignment]) -> list[str]:
    """Return the checker's violations if the assignments are bound as one unit."""
    pods = {pod_key(pod): pod for pod in snapshot.pods}
    members = [(pods[entry.pod], entry.node) for entry in unit]
    faults = Judge(snapshot, [pod for pod, _ in members]).bind(members)
    return [f"{entry.pod} on {entry.node}: {rule}: {why}" for entry, own in zip(unit, faults, strict=True) for rule, why in own]


def one_by_one(snapshot: Snapshot, pods: Mapping[int, str]) -> list[str]:
    """Return the checker's violations if pods (by index, in this order) are bound to nodes, each as its own unit."""
    judge = Judge(snapshot, [snapshot.pods[i] for i in pods])
    return [
        f"{pod_key(snapshot.pods[i])} on {n}: {rule}: {why}"
        for i, n in pods.items()
        for rule, why in judge.bind([(snapshot.pods[i], n)])[0]
    ]


@dataclass(frozen=True)
class Answer:
    """``seconds``: from objects to verified placement. ``faults``: what the checker, asked once more, has against it."""

    snapshot: Snapshot
    result: Placement
    seconds: float
    faults: int

    @property
    def whole(self) -> bool:
        """All pods placed, in a placement that the checker accepts."""
        return not self.faults and len(self.result.assignments) == self.result.snapshot.pending

    @property
    def proved(self) -> bool:
        """Nothing placed, proved, and a proved cause given."""
        tiers = [t for t in self.result.objective if t.tier == "placed"]
        nothing = not self.result.assignments and all(t.bound == 0 for t in tiers)
        return not self.faults and nothing and self.result.status == "infeasible"


def solve(instance: Planted | Impossible, seconds: float) -> Answer:
    """Place a gang within a time limit. The seconds end with the answer to whether it fits: what comes after is stopped."""
    began = time.monotonic()
    snapshot = expanded(instance)
    waiting, stop = len(select(snapshot).pending), threading.Event()

    def hear(progress: Progress) -> None:
        if progress.tier == "placed" and progress.value == waiting:
            stop.set()

    result = place(snapshot, Options(time_limit=seconds, policy=PLACED_ONLY), began=began, stop=stop, on_progress=hear)
    taken = time.monotonic() - began
    return Answer(snapshot, result, taken, len(verify(snapshot, result)))


def cause(answer: Answer, instance: Impossible) -> Cause | None:
    """The cause that is given for the gang."""
    return next((c for c in answer.result.causes if c.gang == instance.gang), None)


def names(given: Cause, instance: Impossible) -> bool:
    """Return whether a cause contains the planted one: a fact of its rule (and resource), and its domain in some fact."""
    facts = [f for f in given.facts if f.rule == instance.rule and instance.resource in (None, f.resource)]
    value = "" if instance.domain is None else instance.domain.partition("=")[2]
    return bool(facts) and any(value in f"{f.domain} {f.message}" for f in given.facts)


def works(answer: Answer, instance: Impossible, given: Cause, seconds: float) -> list[bool | None]:
    """For each way out whether the gang can be placed once it is taken; None: not known in time."""
    snapshot = answer.snapshot
    (gang,) = gangs.find(snapshot, select(snapshot))
    assert gang.name == instance.gang
    unit = PlacementQuestion(snapshot, gang.pods, gang.needed)
    return [applied(unit, way).feasible(within(seconds)) for way in given.waysOut]
