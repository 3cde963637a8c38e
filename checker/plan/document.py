"""Faults of a RebalancePlan itself: numbering, unknown objects and limits; and the plan's entries for the replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from kubestow.checker.claims.document import count_faults
from kubestow.checker.violation import Violation
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

#: Rule name of violations in the document itself.
PLAN: Final = "RebalancePlan"

_HASH: Final = "pod-template-hash"


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """A move, a binding (no ``source``: the pod is pending) or an eviction (no ``target``)."""

    step: int
    wave: int
    pod: str
    source: str | None
    target: str | None
    gang: str | None = None
    stopover: bool = False

    @property
    def place(self) -> str:
        """The node that a fault of the entry refers to."""
        return self.target or self.source or ""


def entries(plan: RebalancePlan) -> list[PlanEntry]:
    """Return all moves and evictions by wave and step; those of one step in document order."""
    found = [PlanEntry(m.step, m.wave, m.pod, m.source, m.to, m.gang, m.stopover) for m in plan.moves]
    found += [PlanEntry(e.step, e.wave, e.pod, e.source, None) for e in plan.evictions]
    return sorted(found, key=lambda entry: (entry.wave, entry.step))


def numbering_faults(plan: RebalancePlan, listed: Sequence[PlanEntry], gang_of: Mapping[str, str]) -> Iterator[Violation]:
    """Yield faults of step and wave numbers.

    Steps are 1, 2, … and waves rise with them. Only bindings of one gang share a step, and only they name the gang.

    Args:
        plan: The plan.
        listed: Its entries.
        gang_of: Gang of each pod to be placed, by key.
    """

    def fault(why: str, entry: PlanEntry | None = None) -> Violation:
        return Violation(entry.pod if entry else "", entry.place if entry else "", PLAN, why)

    by_step: dict[int, list[PlanEntry]] = {}
    for entry in listed:
        by_step.setdefault(entry.step, []).append(entry)
    for expected, step in enumerate(sorted(by_step), 1):
        if step != expected:
            yield fault(f"steps are numbered from 1 without a gap, expected {expected} and got {step}")
            break
    for one, other in pairwise(listed):
        if other.step < one.step:
            yield fault(f"step {other.step} is of wave {other.wave}, step {one.step} of wave {one.wave}: waves rise with the steps", other)
    for step, shared in sorted(by_step.items()):
        gangs = {gang_of.get(entry.pod) for entry in shared}
        if len({entry.wave for entry in shared}) > 1:
            yield fault(f"step {step} is in more than one wave", shared[-1])
        if len(shared) > 1 and (len(gangs) > 1 or None in gangs or any(entry.source is not None for entry in shared)):
            yield fault(f"step {step} is shared by pods that are not bound as one gang", shared[-1])
    for entry in listed:
        gang = gang_of.get(entry.pod) if entry.source is None else None
        if entry.gang != gang:
            right = f"it is of gang {gang}" if gang else "it is of no gang that is to be placed"
            yield fault(f"the pod is said to be of {f'gang {entry.gang}' if entry.gang else 'no gang'}, {right}", entry)
    for expected, wave in enumerate(sorted({entry.wave for entry in listed}), 1):
        if wave != expected:
            yield fault(f"waves are numbered from 1 and none is empty, expected {expected} and got {wave}")
            break
    for name, steps in (("moves", [m.step for m in plan.moves]), ("evictions", [e.step for e in plan.evictions])):
        if steps != sorted(steps):
            yield fault(f"{name} are not listed by step")


def history_faults(listed: Sequence[PlanEntry]) -> Iterator[Violation]:
    """Yield contradictions between the entries of one pod.

    A pod has at most one entry per wave and none after its eviction, and it leaves a stopover again.
    """
    last: dict[str, PlanEntry] = {}
    for entry in listed:
        before = last.get(entry.pod)
        if before is not None:
            if before.wave == entry.wave:
                yield Violation(entry.pod, entry.place, PLAN, f"the pod moves more than once in wave {entry.wave}")
            if before.target is None:
                yield Violation(entry.pod, entry.place, PLAN, "the pod was evicted for good before")
            elif before.stopover != (entry.target is not None):
                why = f"step {before.step} is {'' if before.stopover else 'not '}said to be a stopover, step {entry.step} says otherwise"
                yield Violation(entry.pod, entry.place, PLAN, why)
        if entry.source == entry.target:
            yield Violation(entry.pod, entry.place, PLAN, "the pod is there already")
        last[entry.pod] = entry
    for entry in last.values():
        if entry.stopover:
            yield Violation(entry.pod, entry.place, PLAN, f"step {entry.step} is a stopover, and the pod does not move on")


def goal_faults(plan: RebalancePlan, snapshot: Snapshot, nodes: Collection[str], pending: int) -> Iterator[Violation]:
    """Yield faults of the snapshot's numbers, the engine, the goals, and the nodes to be drained.

    Args:
        plan: The plan.
        snapshot: The snapshot.
        nodes: Names of the nodes.
        pending: Number of pods to be placed.
    """
    for why in count_faults(snapshot, plan, pending):
        yield Violation("", "", PLAN, why)
    if plan.snapshot.fromScratch:
        yield Violation("", "", PLAN, "a plan does not place running pods from scratch")
    if len(set(plan.goals)) < len(plan.goals):
        yield Violation("", "", PLAN, "a goal is given twice")
    unknown = [goal for goal in plan.goals if goal not in ("drain", "repair", "improve", "consolidate", "admit")]
    if unknown:
        yield Violation("", "", PLAN, f"there is no goal {unknown[0]!r}")
    if ("drain" in plan.goals) != bool(plan.drain) or "drain" in plan.goals[1:]:
        yield Violation("", "", PLAN, "the goal drain comes first, if and only if there are nodes to be drained")
    if len(set(plan.drain)) < len(plan.drain):
        yield Violation("", "", PLAN, "a node to be drained is given twice")
    for name in plan.drain:
        if name not in nodes:
            yield Violation("", name, PLAN, "the snapshot has no such node to be drained")
    known = {objects.pod_key(pod) for pod in snapshot.pods} if plan.obstacles else ()
    for obstacle in plan.obstacles:
        if obstacle.node is not None and obstacle.node not in nodes:
            yield Violation("", obstacle.node, PLAN, "an obstacle names a node that the snapshot lacks")
        if obstacle.pod is not None and obstacle.pod not in known:
            yield Violation(obstacle.pod, "", PLAN, "an obstacle names a pod that the snapshot lacks")


def limit_faults(plan: RebalancePlan, listed: Sequence[PlanEntry], workloads: Mapping[str, str]) -> Iterator[Violation]:
    """Yield excess moves, evictions and waves. Bindings of pending pods do not count.

    Args:
        plan: The plan.
        listed: Its entries.
        workloads: Workload of each moving pod, by key.
    """
    limits = plan.limits
    moves = [entry.pod for entry in listed if entry.source is not None and entry.target is not None]
    counts = [
        ("moves", limits.maxMoves, {"": len(moves)}),
        ("evictions", limits.maxEvictions, {"": sum(entry.target is None for entry in listed)}),
        ("moves in namespace", limits.maxMovesPerNamespace, Counter(pod.partition("/")[0] for pod in moves)),
        ("waves", limits.maxWaves, {"": len({entry.wave for entry in listed})}),
        ("moves of", limits.maxMovesPerWorkload, Counter(workloads[pod] for pod in moves if pod in workloads)),
    ]
    for what, limit, found in counts:
        for name, number in sorted(found.items()) if limit is not None else ():
            if limit is not None and number > limit:
                yield Violation("", "", PLAN, f"{number} {what}{' ' if name else ''}{name}, at most {limit} are allowed")
    if not limits.allowEviction:
        for entry in listed:
            if entry.target is None:
                yield Violation(entry.pod, entry.place, PLAN, "the pod is evicted for good, which is not allowed")


class Workloads:
    """Workloads of pods: the controller, or the Deployment of a ReplicaSet by owner or pod-template-hash."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._above: dict[tuple[str, str], str] = {}
        for obj in snapshot.workloads.get("ReplicaSet", ()):
            for owner in obj.metadata.ownerReferences or ():
                if owner.controller and owner.kind == "Deployment":
                    self._above[obj.metadata.namespace or "default", obj.metadata.name or ""] = owner.name

    def of(self, pod: objects.Pod) -> str:
        """Return ``Kind namespace/name`` of a pod's workload. A bare pod is its own workload."""
        owner, namespace = objects.controller_of(pod), pod.metadata.namespace or "default"
        if owner is None:
            return f"Pod {objects.pod_key(pod)}"
        if owner.kind == "ReplicaSet":
            ending = "-" + ((pod.metadata.labels or {}).get(_HASH) or "")
            deployment = self._above.get((namespace, owner.name))
            if deployment is None and len(ending) > 1 and owner.name.endswith(ending):
                deployment = owner.name[: -len(ending)]
            if deployment is not None:
                return f"Deployment {namespace}/{deployment}"
        return f"{owner.kind} {namespace}/{owner.name}"
