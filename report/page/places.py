"""The place of each pod before and after a result, and its change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from kubestow.models.documents.placement import Placement
from kubestow.models.documents.policy import DEFAULT, Policy
from kubestow.models.documents.rebalance_plan import Eviction, Move, RebalancePlan
from kubestow.models.kube import objects
from kubestow.models.kube.lenient_decode import shorten
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads.rollout_input import kind_of, read
from kubestow.models.workloads.updates.update_input import read_update
from kubestow.report.page.owners import of_pods

PLAIN: Final = 0
PLACED: Final = 1
MOVED: Final = 2
EVICTED: Final = 3
PENDING: Final = 4
GATED: Final = 5
CREATED: Final = 6

#: Maximum number of reported problems of a document.
_MAX_PROBLEMS: Final = 3
Result = Placement | RebalancePlan | None


def policy_of(result: Result) -> Policy:
    """Return the policy of a result, or the default."""
    return (result.policy if result is not None else None) or DEFAULT


@dataclass
class ShownMove:
    """A step of a pod from one node to another, both by index (-1: none). With ``evict``, the plan does not place the pod again."""

    pod: int
    source: int
    to: int
    reason: str
    evict: bool = False
    stopover: bool = False


@dataclass
class PodPlaces:
    """Places of pods. Pods are numbered in snapshot order without terminated pods, nodes as in the snapshot.

    Attributes:
        pods: The pods.
        views: Names of the columns of ``place``.
        place: Node index of each pod per view, -1: none.
        state: State of each pod, one of the constants above.
        waves: Steps by wave number.
        recreated: Pods that are stopped and recreated, and so lose an in-place resize.
        zones: NUMA zones of containers, by pod.
    """

    pods: list[objects.Pod]
    views: list[str]
    place: list[list[int]]
    state: list[int]
    waves: list[tuple[int, list[ShownMove]]] = field(default_factory=list)
    recreated: set[int] = field(default_factory=set)
    zones: dict[int, list[tuple[str, list[str]]]] = field(default_factory=dict)


def with_new_pods(snapshot: Snapshot, placement: Placement, manifests: Snapshot | None = None) -> Snapshot:
    """Return the snapshot with the pods of the new revision and their objects. Without a rollout, return it
    unchanged.

    ``manifests`` contain the new template of the Deployment, as given to the rollout.

    Raises:
        InputError: The Deployment does not exist, or its template is unusable.
    """
    reference = placement.snapshot
    if reference.rollout is None or placement.rollout is None:
        return snapshot
    kind, name = kind_of(snapshot, reference.rollout, manifests)
    if kind != "Deployment":
        update = read_update(snapshot, kind, name, manifests, reference.edits)
        known = {objects.pod_key(pod) for pod in snapshot.pods}
        found = update.snapshot.copy()
        coming = {member.index for member in update.members if not member.there}
        kept = (pod for i, pod in enumerate(found.pods) if i not in coming or objects.pod_key(pod) not in known)
        found.pods = list(kept)  # a StatefulSet's new pods reuse the old names
        found.sha256 = snapshot.sha256
        return found
    revision = read(snapshot, name, manifests, reference.edits)
    known = {objects.pod_key(pod) for pod in revision.snapshot.pods}
    found = revision.snapshot.copy()
    found.pods = [*found.pods, *(pod for pod in revision.new if objects.pod_key(pod) not in known)]
    found.sha256 = snapshot.sha256
    return found


def find(snapshot: Snapshot, result: Result, original: Snapshot | None) -> PodPlaces:
    """Return the places of all pods that have not terminated.

    Raises:
        InputError: The result names pods or nodes that the snapshot lacks.
    """
    return _Finder(snapshot, result, original).find()


class _Finder:
    def __init__(self, snapshot: Snapshot, result: Result, original: Snapshot | None) -> None:
        self._snapshot, self._result, self._original = snapshot, result, original
        self._pods = [pod for pod in snapshot.pods if not objects.is_terminal(pod)]
        self._nodes = {node.metadata.name or "": n for n, node in enumerate(snapshot.nodes)}
        self._ids = {objects.pod_key(pod): i for i, pod in enumerate(self._pods)} if result is not None else {}
        self._missing: list[str] = []
        self._before = [self._nodes.get(pod.spec.nodeName or "", -1) for pod in self._pods]
        self._after = list(self._before)
        self._state = [self._waiting(pod) for pod in self._pods]
        self._found = PodPlaces(self._pods, ["now"], [self._before], self._state)

    @staticmethod
    def _waiting(pod: objects.Pod) -> int:
        if pod.spec.nodeName or objects.is_terminating(pod):
            return PLAIN
        return GATED if pod.spec.schedulingGates else PENDING

    def find(self) -> PodPlaces:
        found, result = self._found, self._result
        if result is None:
            return found
        found.views, found.place = ["before", "after"], [self._before, self._after]
        if isinstance(result, RebalancePlan):
            self._plan(result)
        else:
            self._placement(result)
            if result.rollout is not None:
                self._rollout(result)
        if self._missing:
            more = len(self._missing) - _MAX_PROBLEMS
            raise InputError(
                [*self._missing[:_MAX_PROBLEMS], *([f"result: {more:,} more names that the snapshot lacks"] if more > 0 else [])]
            )
        self._created()
        return found

    def _pod(self, name: str, where: str) -> int:
        at = self._ids.get(name)
        if at is None:
            self._missing.append(
                f"result: {where}: pod {shorten(name)} is not in the snapshot, or has terminated; expected the snapshot of the result"
            )
            return -1
        return at

    def _node(self, name: str | None, where: str) -> int:
        if name is None:
            return -1
        at = self._nodes.get(name)
        if at is None:
            self._missing.append(f"result: {where}: node {shorten(name)} is not in the snapshot, expected the snapshot of the result")
            return -1
        return at

    def _put(self, pod: int, node: int) -> None:
        """Assign a node to a pod."""
        was = self._before[pod]
        self._after[pod] = node
        self._state[pod] = PLACED if was < 0 else PLAIN if was == node else MOVED
        if was >= 0:
            self._found.recreated.add(pod)

    def _placement(self, result: Placement) -> None:
        for i, unplaced in enumerate(result.unplaced):
            pod = self._pod(unplaced.pod, f"unplaced[{i}].pod")
            if pod >= 0:
                self._after[pod] = -1
                self._state[pod] = GATED if unplaced.gated else PENDING
        for i, assignment in enumerate(result.assignments):
            where = f"assignments[{i}]"
            pod, node = self._pod(assignment.pod, f"{where}.pod"), self._node(assignment.node, f"{where}.node")
            if pod < 0 or node < 0:
                continue
            self._put(pod, node)
            if assignment.containers:
                self._found.zones[pod] = [(each.name, list(each.zones)) for each in assignment.containers]

    def _plan(self, plan: RebalancePlan) -> None:
        steps: list[tuple[int, int, int, Move | Eviction]] = [
            *((move.wave, move.step, i, move) for i, move in enumerate(plan.moves)),
            *((eviction.wave, eviction.step, i, eviction) for i, eviction in enumerate(plan.evictions)),
        ]
        waves: dict[int, list[ShownMove]] = {}
        for wave, _, i, each in sorted(steps, key=lambda step: step[:2]):
            where = f"{'moves' if isinstance(each, Move) else 'evictions'}[{i}]"
            pod, source = self._pod(each.pod, f"{where}.pod"), self._node(each.source, f"{where}.from")
            to = self._node(each.to, f"{where}.to") if isinstance(each, Move) else -1
            if pod < 0:
                continue
            waves.setdefault(wave, []).append(
                ShownMove(pod, source, to, each.reason, isinstance(each, Eviction), isinstance(each, Move) and each.stopover)
            )
            if isinstance(each, Move):
                self._put(pod, to)
            else:
                self._after[pod] = -1
                self._state[pod] = EVICTED
        self._found.waves = sorted(waves.items())
        for i, name in enumerate((*plan.freed, *plan.drain)):
            self._node(name, f"freed[{i}]" if i < len(plan.freed) else f"drain[{i - len(plan.freed)}]")

    # --- rollouts ---------------------------------------------------------------------------------------------------------

    def _rollout(self, result: Placement) -> None:
        """Follow the pods of a rollout. New pods are on their assigned nodes; deleted old pods are on none."""
        assert result.rollout is not None
        going = self._going(result.rollout.workload)
        for w, wave in enumerate(result.rollout.waves):
            where = f"rollout.waves[{w}]"
            steps = [self._gone(pod, "already being deleted") for pod in going] if not w else []
            for i, entry in enumerate(wave.create):
                pod, node = self._pod(entry.pod, f"{where}.create[{i}].pod"), self._node(entry.node, f"{where}.create[{i}].node")
                if pod >= 0 and node >= 0:
                    self._after[pod] = node
                    self._state[pod] = PLACED
                    steps.append(ShownMove(pod, -1, node, "pending old pod" if entry.old else "new pod"))
            for i, name in enumerate(wave.delete):
                pod = self._pod(name, f"{where}.delete[{i}]")
                if pod >= 0:
                    steps.append(self._gone(pod, "old pod deleted"))
            self._found.waves.append((wave.wave, steps))
        for w, wave in enumerate(result.rollout.waves):
            for i, name in enumerate(wave.waiting):
                self._pod(name, f"rollout.waves[{w}].waiting[{i}]")

    def _gone(self, pod: int, why: str) -> ShownMove:
        self._after[pod], self._state[pod] = -1, EVICTED
        return ShownMove(pod, self._before[pod], -1, why, evict=True)

    def _going(self, workload: str) -> Iterable[int]:
        """Return the Deployment's terminating pods, which the rollout treats as gone."""
        terminating = [i for i, pod in enumerate(self._pods) if objects.is_terminating(pod) and self._before[i] >= 0]
        names, of = of_pods(self._snapshot, [self._pods[i] for i in terminating])
        return [i for i, at in zip(terminating, of, strict=True) if names[at][0] == workload]

    def _created(self) -> None:
        """Mark placed pods as created if a rollout creates them or the snapshot lacked them before it was edited."""
        result = self._result
        new: set[str] = set()
        if isinstance(result, Placement) and result.rollout is not None:
            new = {entry.pod for wave in result.rollout.waves for entry in wave.create}
        if self._original is not None:
            known = {objects.pod_key(pod) for pod in self._original.pods}
            new |= self._ids.keys() - known
        for name in new:
            at = self._ids[name]
            if self._state[at] == PLACED:
                self._state[at] = CREATED
