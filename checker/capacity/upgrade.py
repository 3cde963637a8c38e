"""The checker of an Upgrade. It replays each wave in the state after the earlier waves, like a plan that drains the wave's nodes.

Every move must be accepted on its target, in any order inside its wave of moves. No pod may be worse off, no
disruption budget exceeded, and no pod left on a drained node. The number of missing or surplus nodes never exceeds
what the upgrade allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from kubestow.checker.capacity import buffers
from kubestow.checker.capacity.checked import CheckedDocument
from kubestow.checker.capacity.pools import selected
from kubestow.checker.capacity.waves.running_state import RunningState, suits
from kubestow.checker.capacity.waves.separate_snapshots import MAX_REPLAYED_PODS, SeparateSnapshots
from kubestow.checker.violation import Violation
from kubestow.models.documents.upgrade import Upgrade, UpgradeWave
from kubestow.models.edits import nodes as edits_nodes
from kubestow.models.edits import upgrade as edits
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

RULE: Final = "Upgrade"
#: Claims that are not checked, in words for users.
UNCHECKED: Final = (
    "what keeps nodes from being drained and what would help, that no upgrade gets through, and the smallest surge: they take a search",
    "NUMA zones, because the zones of running pods are unknown",
)


def check_upgrade(snapshot: Snapshot, upgrade: Upgrade, *, max_replayed_pods: int | None = None) -> CheckedDocument:
    """Check an Upgrade and return its faults and unchecked claims.

    Args:
        snapshot: The snapshot before the upgrade.
        upgrade: The document.
        max_replayed_pods: Judge each wave on its own snapshot, and replay at most this number of pods summed over waves.
            Clusters with devices are always judged so.

    Raises:
        QuantityError: a quantity in the snapshot is malformed or beyond 64 bits.
        InputError: the declaration of a pending gang cannot be read.
    """
    ref = upgrade.snapshot
    if ref.sha256 and snapshot.sha256 and ref.sha256 != snapshot.sha256:
        return CheckedDocument([_fault(f"the document is of snapshot {ref.sha256}, this is {snapshot.sha256}")], list(UNCHECKED))
    found = [_fault(why) for why in _document_faults(snapshot, upgrade)]
    course, waves, wrong = _Course(snapshot, upgrade), list[UpgradeWave](), list[str]()
    for wave in upgrade.waves:
        wrong = [f"wave {wave.wave}: {why}" for why in course.begin(wave)]
        if wrong:  # later waves would be judged on the wrong cluster
            break
        waves.append(wave)
    separate = (
        SeparateSnapshots(snapshot, upgrade, MAX_REPLAYED_PODS if max_replayed_pods is None else max_replayed_pods)
        if max_replayed_pods is not None or not suits(snapshot)
        else None
    )
    state = separate or RunningState(snapshot, upgrade, waves)
    for wave in waves:
        found += [Violation(f.pod, f.node, f.rule, f"wave {wave.wave}: {f.why}") for f in _drain(state, wave)]
    if wrong:
        return CheckedDocument([*found, *map(_fault, wrong)], [*UNCHECKED, f"what comes after wave {upgrade.waves[len(waves)].wave}"])
    lost = [key for pod in edits.stays(snapshot.pods, upgrade.nodes) if not state.runs(key := objects.pod_key(pod))]
    found += [_fault(f"{len(lost)} pods of the pool run nowhere in the end, {min(lost)} among them")] if lost else []
    found += _headroom_faults(snapshot, upgrade)
    skipped_waves = len(waves) - len(separate.replayed) if separate is not None else 0
    more = [f"rules and budgets in {skipped_waves} of the {len(waves)} waves: with devices, that takes too long"]
    bounds = [buffers.UNCHECKED] if upgrade.headroom is not None else []
    return CheckedDocument(found, [*UNCHECKED, *(more if skipped_waves else ()), *bounds])


def _headroom_faults(snapshot: Snapshot, upgrade: Upgrade) -> Iterator[Violation]:
    """Yield faults of the headroom for CapacityBuffers in each wave, while the wave's nodes are missing."""
    rooms = {room.state: room for room in upgrade.headroom or ()}
    if len(rooms) < len(upgrade.headroom or ()) or not rooms.keys() <= {str(wave.wave) for wave in upgrade.waves}:
        yield _fault("the headroom is given of a wave that is none, or twice of one")
        return
    now = snapshot
    for wave in upgrade.waves if rooms else ():
        now = edits.before(now, wave, upgrade.to)
        room = rooms.get(str(wave.wave))
        if room is not None:
            missing = edits.moved(now, wave).copy()
            edits_nodes.remove(missing, set(wave.drain))
            yield from buffers.headroom_faults(missing, room, upgrade.snapshot, upgrade.policy)
        now = edits.left_by(now, wave, upgrade.to)


def _fault(why: str, pod: str = "", node: str = "") -> Violation:
    return Violation(pod, node, RULE, why)


def _document_faults(snapshot: Snapshot, upgrade: Upgrade) -> Iterator[str]:
    """Yield contradictions between the document and the snapshot, or inside the document."""
    pool = selected(snapshot, upgrade.pool)
    if sorted(pool) != sorted(upgrade.nodes):
        yield f"the nodes of pool {upgrade.pool} are others than those that are named: {len(pool)}, and {len(upgrade.nodes)}"
    if upgrade.maxUnavailable < 0 or upgrade.surge < 0 or upgrade.maxUnavailable + upgrade.surge == 0:
        yield f"{upgrade.maxUnavailable} nodes may be missing and {upgrade.surge} surplus, expected at least one in total"
    if [wave.wave for wave in upgrade.waves] != list(range(1, len(upgrade.waves) + 1)):
        yield "waves are not numbered 1, 2, …"
    drained = {name for wave in upgrade.waves for name in wave.drain}
    for blocker in upgrade.blocked:
        if blocker.node not in upgrade.nodes:
            yield f"{blocker.node} is said to be blocked, and is none of the pool"
        elif blocker.node in drained:
            yield f"{blocker.node} is said to be blocked, and is drained"
    keys = {objects.pod_key(pod) for pod in snapshot.pods}
    for blocker in upgrade.blocked:
        if strange := [pod for pod in blocker.pods if pod not in keys]:
            yield f"{blocker.node} is said to be blocked by {strange[0]}, and there is no such pod"
    complete = drained >= set(upgrade.nodes)
    if upgrade.complete != complete:
        yield f"it is said {'' if upgrade.complete else 'not '}to be complete, {len(drained)} of {len(upgrade.nodes)} nodes are drained"
    if upgrade.complete and (upgrade.blocked or upgrade.proved or upgrade.smallestSurge is not None):
        yield "it is complete, and obstacles are listed"
    if upgrade.smallestSurge is not None and upgrade.smallestSurge <= upgrade.surge:
        yield f"a surge of {upgrade.smallestSurge} is said to help, and {upgrade.surge} does not"


@dataclass
class _Course:
    """The nodes of the pool on their way through the waves.

    Attributes:
        start: The snapshot before the upgrade.
        upgrade: The document.
        old: Nodes of the pool that are not drained yet.
        new: Name of each new node, by the node that it replaces.
        names: Names of all nodes that ever existed.
    """

    start: Snapshot
    upgrade: Upgrade
    old: set[str] = field(init=False)
    new: dict[str, str] = field(default_factory=dict)
    names: set[str] = field(init=False)
    _labels: dict[str, dict[str, str]] = field(init=False)
    _domains: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._labels = {node.metadata.name or "": node.metadata.labels or {} for node in self.start.nodes}
        self.old, self.names = set(self.upgrade.nodes), set(self._labels)

    def begin(self, wave: UpgradeWave) -> Iterator[str]:
        """Apply the node changes of a wave and yield their faults."""
        size = len(self.upgrade.nodes)
        if not wave.drain:
            yield "no node is drained"
        for name in wave.drain:
            if name not in self.old or name not in self._labels:
                yield f"{name} is drained, and is no old node of the pool"
        if len(set(wave.drain)) < len(wave.drain):
            yield "a node is drained twice"
        for joining in (*wave.surge, *wave.joined):
            if joining.like not in self.old or joining.like not in self._labels or joining.like in self.new:
                yield f"{joining.name} replaces {joining.like}, which is replaced already or is no old node of the pool"
            if joining.name in self.names:
                yield f"there is a node {joining.name} already"
            self.names.add(joining.name)
            self.new[joining.like] = joining.name
        if without := [name for name in wave.drain if name not in self.new]:
            yield f"no new node replaces {without[0]}"
        if early := [joining.like for joining in wave.joined if joining.like not in wave.drain]:
            yield f"the replacement of {early[0]} joins late, and {early[0]} is not drained"
        limit = len(self.old) + len(self.new) - len(wave.joined)
        if limit > size + self.upgrade.surge:
            yield f"{limit - size} nodes are there beyond the pool, {self.upgrade.surge} may be"
        if size - (limit - len(wave.drain)) > self.upgrade.maxUnavailable:
            yield f"{size - limit + len(wave.drain)} nodes of the pool are missing, {self.upgrade.maxUnavailable} may be"
        if self.upgrade.by is not None:
            yield from self._domain_faults(wave, self.upgrade.by)
        self.old -= set(wave.drain)
        for name in wave.drain:
            self.new[name] = self.new.get(name, "")

    def _domain_faults(self, wave: UpgradeWave, key: str) -> Iterator[str]:
        values = {self._labels[name].get(key) or "" for name in wave.drain if name in self._labels}
        if {f"{key}={value}" for value in values} != {wave.domain}:
            yield f"it is said to be of {wave.domain}, its nodes are of {', '.join(sorted(f'{key}={value}' for value in values))}"
        for value in sorted(values):
            if value in self._domains[:-1]:
                yield f"{key}={value} was left before it was done"
            if not self._domains or self._domains[-1] != value:
                self._domains.append(value)


def _drain(state: SeparateSnapshots | RunningState, wave: UpgradeWave) -> Iterator[Violation]:
    """Apply the moves of a wave and yield their faults."""
    state.begin(wave)
    drained, moved = set(wave.drain), set[str]()
    there = state.pods_on(wave.drain)
    at = {objects.pod_key(pod): pod.spec.nodeName for pod in there}
    for move in wave.moves:
        if move.source not in drained or at.get(move.pod) != move.source:
            yield _fault("the pod is no pod of a node that is drained", move.pod, move.to)
        if move.to in drained or move.stopover:
            yield _fault("the pod would have to go on", move.pod, move.to)
        if move.pod in moved:
            yield _fault("the pod moves twice", move.pod, move.to)
        moved.add(move.pod)
    for pod in edits.stays(there, drained):
        if objects.pod_key(pod) not in moved:
            yield _fault("the pod is left on a node that is drained", objects.pod_key(pod), pod.spec.nodeName or "")
    yield from state.drain(wave)
