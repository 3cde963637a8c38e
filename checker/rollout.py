"""The independent checker of a rollout. It replays the waves on the raw objects, without the simulation that found them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kubestow.checker.attachments import NodeAttachments
from kubestow.checker.claims.document import count_faults
from kubestow.checker.placement import Judge
from kubestow.checker.rules import Creations, released
from kubestow.checker.updates import verify_update
from kubestow.checker.violation import DOCUMENT, Violation
from kubestow.checker.worst_end import disorder, end_faults
from kubestow.models.documents.placement import Placement, Rollout, RolloutPod, Wave, WorstEnd
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads.deployment_rollout import Old, Pace
from kubestow.models.workloads.rollout_input import kind_of, read


def verify_rollout(snapshot: Snapshot, placement: Placement, manifests: Snapshot | None = None) -> list[Violation]:
    """Return all violations of a rollout.

    In each wave, quotas and LimitRanges must admit the new pods, and each must pass every filter in turn, with the
    remaining old pods present. The number of pods must not exceed replicas + maxSurge. Available pods must not fall
    below replicas - maxUnavailable. Only old pods are deleted. A halt must be genuine: the controller can do
    nothing, and no node accepts the first pending pod. NUMA zones of kubelets are not replayed.

    :mod:`kubestow.checker.updates` replays updates of StatefulSets and DaemonSets; this function handles Deployments.

    Args:
        snapshot: The snapshot.
        placement: The document.
        manifests: Manifests with the new template, as they were given to the rollout.

    Raises:
        QuantityError: a quantity in the snapshot is malformed or beyond 64 bits.
    """
    rollout = placement.rollout
    if rollout is None or placement.snapshot.rollout is None:
        return [Violation("", "", DOCUMENT, "the document has no rollout, or does not name it")]
    try:
        kind, name = kind_of(snapshot, placement.snapshot.rollout, manifests)
        if kind == "StatefulSet" or kind == "DaemonSet":
            return verify_update(snapshot, placement, kind, name, manifests)
        revision = read(snapshot, name, manifests, placement.snapshot.edits)
    except InputError as error:
        return [Violation("", "", DOCUMENT, problem) for problem in error.problems]
    replay = _RolloutReplay(
        revision.snapshot, placement, revision.pace, {entry.key: entry for entry in revision.old},
        {objects.pod_key(pod): pod for pod in revision.new}, {objects.pod_key(revision.snapshot.pods[i]) for i in revision.going},
        revision.paused,
    )  # fmt: skip
    for worst in rollout.worstEnds:
        replay.worst_end(worst, rollout)
    replay.document(rollout, f"Deployment {revision.workload}", snapshot.sha256)
    for why in count_faults(snapshot, placement, len(revision.new)):
        replay.fault(why)
    for number, wave in enumerate(rollout.waves, 1):
        replay.wave(number, wave)
    replay.end(rollout)
    return replay.faults


@dataclass
class _RolloutReplay:
    """The replay of a Deployment's rollout.

    Attributes:
        snapshot: The snapshot.
        placement: The document.
        pace: Replicas, surge and unavailability of the strategy.
        old: Old pods, by key.
        new: New pods, by key.
        gone: Keys of pods that were terminating.
        paused: True if the Deployment is paused.
        faults: Violations.
        alive: Keys of the remaining old pods.
        placed: Nodes of placed new pods, in bind order.
        waiting: Keys of pending new pods.
        held: Devices and the like of placed new pods, by name of the rule.
        books: Quotas, with their use by these pods.
        attached: Attached single-node volumes.
    """

    snapshot: Snapshot
    placement: Placement
    pace: Pace
    old: dict[str, Old]
    new: dict[str, objects.Pod]
    gone: set[str]
    paused: bool = False
    faults: list[Violation] = field(default_factory=list)
    alive: set[str] = field(init=False)
    placed: dict[str, str] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)
    held: dict[str, Mapping[str, object]] = field(default_factory=dict)
    books: Creations = field(init=False)
    attached: NodeAttachments = field(init=False)

    def __post_init__(self) -> None:
        self.alive = set(self.old)
        exempt, policy = self.placement.snapshot.daemonNamespaces, self.placement.policy or DEFAULT
        self.books = Creations(self.snapshot, self.gone, policy=policy, exempt=exempt)
        self.attached = NodeAttachments(self.snapshot)
        self.attached.begin([pod for pod in self.snapshot.pods if objects.pod_key(pod) not in self.gone])

    def fault(self, why: str, pod: str = "", node: str = "", rule: str = DOCUMENT) -> None:
        """Record a violation."""
        self.faults.append(Violation(pod, node, rule, why))

    def document(self, found: Rollout, workload: str, sha256: str) -> None:
        """Check the document's claims about the Deployment, and that its parts agree."""
        reference = self.placement.snapshot
        if reference.sha256 and sha256 and reference.sha256 != sha256:
            self.fault(f"the document is of snapshot {reference.sha256}, this is {sha256}")
        strategy = "Recreate" if self.pace.recreate else "RollingUpdate"
        claimed = (found.workload, found.strategy, found.replicas, found.maxSurge, found.maxUnavailable)
        expected = (workload, strategy, self.pace.replicas, self.pace.surge, self.pace.unavailable)
        for field_name, got, wanted in zip(
            ("workload", "strategy", "replicas", "maxSurge", "maxUnavailable"), claimed, expected, strict=True
        ):
            if got != wanted:
                self.fault(f"rollout.{field_name} is {got}, it should be {wanted}")
        binds = [(pod.pod, pod.node, pod.order) for wave in found.waves for pod in wave.create]
        named = [pod.devices for wave in found.waves for pod in wave.create]
        assignments = self.placement.assignments
        if binds != [(a.pod, a.node, a.order) for a in assignments] or named != [a.devices for a in assignments]:
            self.fault("the assignments are not the pods of the waves, in their order")
        orders = [order for _, _, order in binds]
        if any(b <= a for a, b in zip([0, *orders], orders, strict=False)):
            self.fault("the order numbers of the waves do not increase")
        missing = sorted(self.new.keys() - {pod for pod, _, _ in binds})
        if sorted(entry.pod for entry in self.placement.unplaced) != missing:
            self.fault("the pods that are listed as unplaced are not those that get no node")
        tiers = self.placement.objective
        if len(tiers) > 1 or any(t.value != len(binds) or t.bound < t.value or t.bound > len(self.new) for t in tiers):
            self.fault("the tier of placed pods does not give the number of pods that get a node, and a bound on it")
        status = self.placement.status
        if (status == "optimal") != found.complete or (status == "infeasible" and (binds or not found.proved)):
            self.fault(f"the status {status} contradicts the rollout")

    def wave(self, number: int, wave: Wave) -> None:
        """Replay a wave: creations one by one, then deletions."""
        if wave.wave != number:
            self.fault(f"wave {number} is numbered {wave.wave}")
        before = len(self.placed) + len(self.waiting)
        arriving = []
        for entry in wave.create:
            if entry.pod not in self.new:
                self.fault("no pod of the new revision", entry.pod, entry.node)
            elif entry.pod in self.placed or entry.pod in arriving:
                self.fault("the pod has a node already", entry.pod, entry.node)
            elif all(node.metadata.name != entry.node for node in self.snapshot.nodes):
                self.fault("the snapshot has no such node", entry.pod, entry.node)
            else:
                arriving.append(entry.pod)
        there = {*self.placed, *arriving}
        for pod in wave.waiting:
            if pod not in self.new or pod in there:
                self.fault("no pod of the new revision that waits", pod)
            there.add(pod)
        if not there >= {*self.placed, *self.waiting}:
            self.fault(f"a waiting pod is missing in wave {number}")
        total = len(self.alive) + len(there)
        if len(there) > before and total > self.pace.most:
            self.fault(f"{total} pods in wave {number}, at most {self.pace.most} are admitted")
        if self.pace.recreate and self.alive and there:
            self.fault(f"wave {number} creates new pods while old ones are there")
        self._admit(number, there - {*self.placed, *self.waiting})
        self._bind([entry for entry in wave.create if entry.pod in arriving])
        self.waiting = list(wave.waiting)
        self._delete(number, wave.delete)

    def _admit(self, number: int, created: set[str]) -> None:
        """Charge quotas for the pods that a wave creates; each must be admitted."""
        for key in sorted(created & self.new.keys()):
            fault = self.books.fault(self.new[key])
            if fault is not None:
                self.fault(f"wave {number} creates the pod although it is refused: {fault[1]}", key, rule=fault[0])
            self.books.create(self.new[key])

    def _judge(self, candidates: Sequence[objects.Pod]) -> Judge:
        """Return the current state of the cluster, with the placed new pods."""
        pods = [
            pod
            for pod in self.snapshot.pods
            if (key := objects.pod_key(pod)) not in self.gone and (key in self.alive or key not in self.old)
        ]
        judged = [*(self.new[key] for key in self.placed), *candidates]
        there = {objects.pod_key(pod) for pod in pods}
        now = released(self.snapshot, {key for key in map(objects.pod_key, self.snapshot.pods) if key not in there})
        now = replace(now, pods=pods)
        exempt, policy = self.placement.snapshot.daemonNamespaces, self.placement.policy or DEFAULT
        judge = Judge(now, judged, exempt=exempt, held=self.held, policy=policy)
        for key, node in self.placed.items():
            judge.bind([(self.new[key], node)])  # judged in its own wave
        return judge

    def _bind(self, arriving: Sequence[RolloutPod]) -> None:
        """Bind the pods of a wave and record their faults."""
        if arriving:
            judge = self._judge([self.new[entry.pod] for entry in arriving])
            for entry in arriving:
                key, node, pod = entry.pod, entry.node, self.new[entry.pod]
                for rule, why in judge.bind([(pod, node)])[0]:
                    self.fault(why, key, node, rule)
                for rule, why in judge.entry_faults(pod, entry):
                    self.fault(why, key, node, rule)
                self.placed[key], self.held[key] = node, judge.holdings(pod)
                self.attached.come(pod, node)

    def _delete(self, number: int, names: Sequence[str]) -> None:
        """Delete old pods and record faults."""
        lost, started = 0, len(self._started())  # volumes of deleted pods are not attached elsewhere yet
        for key in names:
            if key not in self.alive:
                self.fault("no pod of an old revision that is there", key)
                continue
            self.alive.remove(key)
            self.books.remove(self.snapshot.pods[self.old[key].index])
            self.attached.go(self.snapshot.pods[self.old[key].index])
            lost += self.old[key].available
        available = started + sum(self.old[key].available for key in self.alive)
        if lost and not self.pace.recreate and available < self.pace.least:
            self.fault(f"{available} pods are available after wave {number}, at least {self.pace.least} have to be")

    def _available(self) -> int:
        """Return the number of available pods."""
        return len(self._started()) + sum(self.old[key].available for key in self.alive)

    def _started(self) -> set[str]:
        """Return the new pods on whose node all their volumes are attached."""
        return {key for key, node in self.placed.items() if self.attached.starts(self.new[key], node)}

    def worst_end(self, end: WorstEnd, found: Rollout) -> None:
        """Check a worst end: replay its waves from the start, and count the pods of its end."""
        replay = replace(self, faults=[], placed={}, waiting=[], held={})
        new = next(iter(self.new.values()), None)
        if not found.complete or self.pace.recreate or new is None or (end.skew is None) != (not end.waves):
            self.fault(f"{end.constraint}: a worst end without waves, or of a rollout that has none")
            return
        for number, wave in enumerate(end.waves, 1):
            nodes = [*replay.placed.values(), *(entry.node for entry in wave.create), *(self.old[k].node or "" for k in replay.alive)]
            for key in disorder(wave.delete, {key: self.old[key] for key in replay.alive}, nodes):
                self.fault(f"{end.constraint}: the pod is deleted before another one that its controller ranks first", key)
            replay.wave(number, wave)
        if end.waves and (replay.alive or len(replay.placed) != len(self.new)):
            self.fault(f"{end.constraint}: the waves of the worst end do not complete the rollout")
        self.faults += replay.faults
        kept = [pod for pod in self.snapshot.pods if (key := objects.pod_key(pod)) not in self.gone and key not in self.old]
        running = [(pod, pod.spec.nodeName) for pod in kept if pod.spec.nodeName and not objects.is_terminal(pod)]
        running += [(self.new[key], node) for key, node in replay.placed.items()]
        for why in end_faults(self.snapshot, end, new, running):
            self.fault(why)

    def end(self, found: Rollout) -> None:
        """Check that the rollout is complete, or that it cannot continue."""
        not_started = self.placed.keys() - self._started()
        complete = not self.alive and len(self.placed) == len(self.new) and not not_started and not self.paused
        if found.complete != complete:
            self.fault(
                f"rollout.complete is {str(found.complete).lower()}, {len(self.alive)} old pods are left, {len(self.placed)} new ones run"
            )
        if complete:
            if found.stuck or found.waysOut or found.refused:
                self.fault("a complete rollout has pods that are stuck or refused, or remedies")
            return
        if sorted(entry.pod for entry in found.stuck) != sorted([*self.waiting, *not_started]):
            self.fault("the pods that are stuck are not those that wait in the end")
        refused = self.books.fault(next(iter(self.new.values()))) if self._due() else None
        if self.paused:
            self._rests(found)
            return
        if (found.refused.rule if found.refused is not None else None) != (refused[0] if refused is not None else None):
            self.fault(f"rollout.refused does not say what refuses the next pod: {refused[1] if refused is not None else 'nothing does'}")
        if found.proved:
            self._halted(refused is not None)

    def _rests(self, found: Rollout) -> None:
        """Check the document of a paused Deployment, whose controller does nothing."""
        if found.waves or found.refused or not found.halted:
            self.fault("the Deployment is paused, and the document does not say that nothing rolls")

    def _due(self) -> bool:
        """Return True if the strategy allows one more new pod."""
        created = len(self.placed) + len(self.waiting)
        return created < self.pace.replicas and len(self.alive) + created < self.pace.most and not (self.pace.recreate and self.alive)

    def _halted(self, refused: bool) -> None:
        """Check a proved halt: the controller can neither create nor delete pods, and the scheduler cannot place any."""
        if self._due() and not refused:
            self.fault("the rollout is said to halt, and another new pod could be created")
        spare = len(self.alive) + len(self._started()) - self.pace.least
        ailing = any(not self.old[key].available for key in self.alive)
        if self.alive and (self.pace.recreate or self._available() > self.pace.least or (ailing and spare > 0)):
            self.fault("the rollout is said to halt, and another old pod could go")
        if self.waiting and not self.snapshot.node_topologies:
            pod = self.new[self.waiting[0]]
            judge = self._judge([pod])
            for name in judge.nodes:
                if not judge.faults(pod, name):
                    self.fault("the rollout is said to halt, and the waiting pod fits here", self.waiting[0], name)
