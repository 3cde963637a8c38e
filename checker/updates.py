"""The independent checker of StatefulSet and DaemonSet updates. It replays the waves on the raw objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec

from kubestow.checker.attachments import NodeAttachments
from kubestow.checker.claims.document import count_faults
from kubestow.checker.placement import Judge
from kubestow.checker.rules import Creations, released
from kubestow.checker.rules.base import Fault
from kubestow.checker.update_steps import Pods
from kubestow.checker.violation import DOCUMENT, Violation
from kubestow.models.documents.placement import Placement, Rollout, RolloutPod, Wave
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads.updates.update_input import Update, UpdatePod, read_update


def verify_update(
    snapshot: Snapshot, placement: Placement, kind: Literal["StatefulSet", "DaemonSet"], name: str, manifests: Snapshot | None
) -> list[Violation]:
    """Return all violations of an update.

    In each wave the controller must create each new pod, quotas and LimitRanges must admit it, and it must pass
    every filter in turn. Old pods leave only if the controller deletes them. A halt must be genuine: the controller
    can do nothing, and no node accepts a pending pod. NUMA zones of kubelets are not replayed.

    Args:
        snapshot: The cluster.
        placement: The document with the update.
        kind: Kind of the workload.
        name: ``[NAMESPACE/]NAME`` of the workload.
        manifests: Manifests with the new template, as they were given to the update.

    Raises:
        QuantityError: a quantity in the snapshot is malformed or beyond 64 bits.
    """
    rollout = placement.rollout
    assert rollout is not None
    try:
        update = read_update(snapshot, kind, name, manifests, placement.snapshot.edits)
    except InputError as error:
        return [Violation("", "", DOCUMENT, problem) for problem in error.problems]
    replay = _UpdateReplay(update, placement)
    replay.document(rollout, snapshot)
    for number, wave in enumerate(rollout.waves, 1):
        replay.wave(number, wave)
    replay.end(rollout)
    return replay.faults


@dataclass
class _UpdateReplay:
    """The replay of an update.

    Attributes:
        update: The update.
        placement: The document.
        faults: Violations.
        around: The cluster without pods that are created later.
        pods: Current pods of the workload.
        where: Node of each pod of the workload; None if pending.
        bound: Keys of bound pods, in bind order.
        reached: Indices of created members.
        held: Devices and the like of bound pods, by name of the rule.
        books: Quotas, with their use.
        attached: Attached single-node volumes.
        own: Keys of all members.
        on: Pods of the cluster by node.
        apart: True if pods on other nodes do not affect a pod that has its own node.
    """

    update: Update
    placement: Placement
    faults: list[Violation] = field(default_factory=list)
    around: Snapshot = field(init=False)
    pods: Pods = field(init=False)
    where: dict[str, str | None] = field(default_factory=dict)
    bound: list[str] = field(default_factory=list)
    reached: set[int] = field(default_factory=set)
    held: dict[str, Mapping[str, object]] = field(default_factory=dict)
    books: Creations = field(init=False)
    attached: NodeAttachments = field(init=False)
    own: set[str] = field(init=False)
    on: dict[str, list[objects.Pod]] = field(init=False)
    apart: bool = field(init=False)

    def __post_init__(self) -> None:
        update = self.update
        absent = {*(member.index for member in update.members if not member.there), *update.going}
        self.around = replace(update.snapshot, pods=[pod for i, pod in enumerate(update.snapshot.pods) if i not in absent])
        self.pods = Pods(update)
        for member in update.members:
            if member.there:
                self.pods.come(member)
        self.pods.serving = {key for key, member in self.pods.there.items() if member.ready}
        self.where = {key: member.node for key, member in self.pods.there.items()}
        self.books = Creations(self.around, exempt=self.placement.snapshot.daemonNamespaces)
        self.attached = NodeAttachments(self.around)
        self.attached.begin(self.around.pods)
        self.own = {member.key for member in update.members}
        self.on = {}
        for pod in self.around.pods:
            self.on.setdefault(pod.spec.nodeName or "", []).append(pod)
        self.apart = update.kind == "DaemonSet" and all(_for_itself(pod) for pod in self.around.pods)
        self.apart = self.apart and all(_for_itself(update.snapshot.pods[m.index], whole=True) for m in update.members if m.node is None)

    def fault(self, why: str, pod: str = "", node: str = "", rule: str = DOCUMENT) -> None:
        """Record a violation."""
        self.faults.append(Violation(pod, node, rule, why))

    def _pod(self, key: str) -> objects.Pod:
        return self.update.snapshot.pods[self.pods.there[key].index]

    # --- the document -------------------------------------------------------------------------------------------------------

    def document(self, found: Rollout, snapshot: Snapshot) -> None:
        """Check the document's claims about the workload, and that its parts agree."""
        update, placement = self.update, self.placement
        if placement.snapshot.sha256 and snapshot.sha256 and placement.snapshot.sha256 != snapshot.sha256:
            self.fault(f"the document is of snapshot {placement.snapshot.sha256}, this is {snapshot.sha256}")
        stateful = update.kind == "StatefulSet"
        expected = {
            "workload": f"{update.kind} {update.workload}",
            "strategy": update.strategy,
            "replicas": update.replicas,
            "maxSurge": update.surge,
            "maxUnavailable": update.unavailable,
            "partition": update.partition if stateful else None,
            "podManagementPolicy": ("Parallel" if update.parallel else "OrderedReady") if stateful else None,
        }
        for name, wanted in expected.items():
            if getattr(found, name) != wanted:
                self.fault(f"rollout.{name} is {getattr(found, name)}, it should be {wanted}")
        binds = [(pod.pod, pod.node, pod.order, pod.devices) for wave in found.waves for pod in wave.create]
        if binds != [(entry.pod, entry.node, entry.order, entry.devices) for entry in placement.assignments]:
            self.fault("the assignments are not the pods of the waves, in their order")
        if [order for _, _, order, _ in binds] != list(range(1, len(binds) + 1)):
            self.fault("the order numbers of the waves do not go from 1 without a gap")
        for why in count_faults(snapshot, placement, len(update.new)):
            self.fault(why)
        status = placement.status
        if (status == "optimal") != found.complete or (status == "infeasible" and (binds or not found.proved)):
            self.fault(f"the status {status} contradicts the rollout")

    # --- waves --------------------------------------------------------------------------------------------------------------

    def wave(self, number: int, wave: Wave) -> None:
        """Replay creations and bindings one by one, then deletions."""
        if wave.wave != number:
            self.fault(f"wave {number} is numbered {wave.wave}")
        known = {node.metadata.name for node in self.around.nodes}
        arriving: list[RolloutPod] = []
        for entry in wave.create:
            if entry.pod not in self.pods.there:
                self._settle(arriving)
                arriving = []
                self._create(number, entry.pod)
            if entry.pod not in self.pods.there or self.where[entry.pod] is not None or entry.pod in {each.pod for each in arriving}:
                self.fault("no pod of the workload that waits", entry.pod, entry.node)
            elif entry.node not in known:
                self.fault("the snapshot has no such node", entry.pod, entry.node)
            else:
                arriving.append(entry)
        self._settle(arriving)
        for key in wave.waiting:
            if key not in self.pods.there:
                self._create(number, key)
        waiting = {key for key, node in self.where.items() if node is None}
        if set(wave.waiting) != waiting or len(wave.waiting) != len(waiting):
            self.fault(f"the pending pods of wave {number} are {', '.join(sorted(waiting)) or 'none'}")
        self._delete(number, list(wave.delete))

    def _create(self, number: int, key: str) -> None:
        """Create a pod and record faults."""
        made = [k for k, member in enumerate(self.update.members) if not member.there and member.key == key and k not in self.reached]
        if not made:
            self.fault(f"wave {number} creates a pod that does not belong to the workload", key)
            return
        member = self.update.members[made[0]]
        if not self.pods.creates(member.slot):
            self.fault(f"wave {number} creates the pod, and its controller does not", key)
        pod = self.update.snapshot.pods[member.index]
        refused = self.books.fault(pod)
        if refused is not None:
            self.fault(f"wave {number} creates the pod although it is refused: {refused[1]}", key, rule=refused[0])
        self.books.create(pod)
        self.reached.add(made[0])
        self.pods.come(member)
        self.where[key] = None

    def _judge(self, candidates: Sequence[objects.Pod]) -> Judge:
        """Return the current state of the cluster, with the bound pods of the workload."""
        now = self._alone(candidates) if self.apart else self._everywhere()
        policy = self.placement.policy or DEFAULT
        there = {node.metadata.name for node in now.nodes}
        bound = [key for key in self.bound if self.where[key] in there]
        placed = [pod for key in bound if _claims(pod := self._pod(key))]
        plain = (pod for key in bound if not _claims(pod := self._pod(key)))
        now.pods += [_running(pod, self.where[objects.pod_key(pod)]) for pod in plain]
        judge = Judge(now, [*placed, *candidates], exempt=self.placement.snapshot.daemonNamespaces, held=self.held, policy=policy)
        for pod in placed:
            judge.bind([(pod, self.where[objects.pod_key(pod)] or "")])  # judged in its own wave
        return judge

    def _everywhere(self) -> Snapshot:
        """Return the cluster without pods of the workload that are pending or were created later."""
        mine = {member.key for member in self.update.members}
        running = {key for key, member in self.pods.there.items() if member.node is not None}
        pods = [pod for pod in self.around.pods if (key := objects.pod_key(pod)) not in mine or key in running]
        there = {objects.pod_key(pod) for pod in pods}
        now = released(self.around, {key for key in map(objects.pod_key, self.around.pods) if key not in there})
        return replace(now, pods=pods)

    def _alone(self, candidates: Sequence[objects.Pod]) -> Snapshot:
        """Return only the nodes of the pods to be judged, with the pods on them."""
        places = sorted({self.pods.there[objects.pod_key(pod)].slot for pod in candidates})
        nodes = [self.around.nodes[place] for place in places]
        pods = [pod for each in nodes for pod in self.on.get(each.metadata.name or "", ())]
        mine = {key for place in places for key in self.pods.of(place) if self.pods.there[key].node is not None}
        kept = [pod for pod in pods if (key := objects.pod_key(pod)) not in self.own or key in mine]
        return replace(self.around, nodes=nodes, pods=kept)

    def _settle(self, arriving: Sequence[RolloutPod]) -> None:
        """Bind pending pods; every filter must accept each."""
        if not arriving:
            return
        judge = self._judge([self._pod(entry.pod) for entry in arriving])
        for entry in arriving:
            key, node, pod, member = entry.pod, entry.node, self._pod(entry.pod), self.pods.there[entry.pod]
            if entry.old == member.new:
                self.fault("the document says that the pod is of the other revision", key, node)
            for rule, why in judge.bind([(pod, node)])[0]:
                self.fault(why, key, node, rule)
            for rule, why in judge.entry_faults(pod, entry):
                self.fault(why, key, node, rule)
            self.where[key], self.held[key] = node, judge.holdings(pod)
            self.bound.append(key)
            self.attached.come(pod, node)
        self._refresh()

    def _refresh(self) -> None:
        """Recompute the serving pods. A bound pod serves once its volumes are attached to its node."""
        started = {key for key in self.bound if self.attached.starts(self._pod(key), self.where[key] or "")}
        self.pods.serving = {key for key, member in self.pods.there.items() if (member.node is not None and member.ready) or key in started}

    def _delete(self, number: int, names: list[str]) -> None:
        """Delete pods and record those that the controller would not delete."""
        while names:
            groups = self.pods.deletes()
            group = next((group for group in groups if names[0] in group), [])
            size = 0
            while size < min(len(group), len(names)) and group[size] == names[size]:
                size += 1
            if not size:
                self.fault(f"wave {number} deletes the pod, and its controller does not", names[0])
            for key in names[: max(1, size)]:
                self._gone(key)
            names = names[max(1, size) :]

    def _gone(self, key: str) -> None:
        """Remove a deleted pod."""
        if key not in self.pods.there:
            self.fault("there is no such pod of the workload", key)
            return
        pod = self._pod(key)
        self.books.forget(pod)
        if self.where[key] is not None:
            self.attached.go(pod)
        if key in self.bound:
            self.bound.remove(key)
        self.held.pop(key, None)
        self.pods.go(key)
        del self.where[key]
        self._refresh()

    # --- the end ------------------------------------------------------------------------------------------------------------

    def end(self, found: Rollout) -> None:
        """Check that the update is complete, or that it cannot continue."""
        complete = self.pods.finished()
        if found.complete != complete:
            self.fault(f"rollout.complete is {str(found.complete).lower()}, it should be {str(complete).lower()}")
        brought = {member.key for member in self.update.new}
        have = {key for key, member in self.pods.there.items() if not member.there and member.new and self.where[key] is not None}
        if sorted(entry.pod for entry in self.placement.unplaced) != sorted(brought - have if not complete else ()):
            self.fault("the pods that are listed as unplaced are not those that get no node")
        tiers = self.placement.objective
        if len(tiers) > 1 or any(t.value != len(have) or t.bound < t.value or t.bound > len(brought) for t in tiers):
            self.fault("the tier of placed pods does not give the number of pods that get a node, and a bound on it")
        if complete:
            if found.stuck or found.waysOut or found.refused or found.halted or found.withoutPod:
                self.fault("a complete rollout has pods that are stuck or refused, or remedies")
            return
        self._halt(found)

    def _halt(self, found: Rollout) -> None:
        """Check the reported reasons of a halt."""
        not_serving = [key for key in self.bound if key not in self.pods.serving]
        waiting = [key for key, node in self.where.items() if node is None]
        if sorted(entry.pod for entry in found.stuck) != sorted([*waiting, *not_serving]):
            self.fault("the pods that are stuck are not those that wait in the end")
        nodes = [node.metadata.name or "" for node in self.update.snapshot.nodes]
        bare = sorted(nodes[slot] for slot in self.pods.bare()) if self.update.kind == "DaemonSet" else []
        if found.withoutPod != bare:
            self.fault(f"the nodes without a pod are {', '.join(bare) or 'none'}")
        due = self._due()
        refused = self._refused(due)
        if (found.refused.rule if found.refused is not None else None) != (refused[0] if refused is not None else None):
            self.fault(f"rollout.refused does not say what refuses the next pod: {refused[1] if refused is not None else 'nothing does'}")
        waited = self.pods.waited_for() if self.update.kind == "StatefulSet" and refused is None else None
        name = waited.rpartition("/")[2] if waited is not None and self.update.strategy != "OnDelete" else ""
        if not found.halted or name not in found.halted:
            self.fault(f"rollout.halted does not say that the update waits for pod {name}")
        if found.proved:
            self._proved(due, refused, waiting)

    def _due(self) -> list[UpdatePod]:
        """Return the pods that the controller would create next."""
        remaining = [member for k, member in enumerate(self.update.members) if not member.there and k not in self.reached]
        return [member for member in remaining if self.pods.creates(member.slot)]

    def _refused(self, due: Sequence[UpdatePod]) -> Fault | None:
        for member in due:
            refused = self.books.fault(self.update.snapshot.pods[member.index])
            if refused is not None:
                return refused
        return None

    def _proved(self, due: Sequence[UpdatePod], refused: Fault | None, waiting: Sequence[str]) -> None:
        """Check a proved halt: the controller can neither create nor delete pods, and the scheduler cannot place any."""
        if due and refused is None:
            self.fault("the rollout is said to halt, and another new pod could be created", due[0].key)
        barred = refused is not None and self.update.kind == "DaemonSet" and any(not self.pods.of(slot) for slot in self.update.runs)
        groups = [] if barred else self.pods.deletes()
        if groups:
            self.fault("the rollout is said to halt, and another old pod could go", groups[0][0])
        if waiting and not self.around.node_topologies:
            judge = self._judge([self._pod(key) for key in waiting])
            own = {key: self.around.nodes[self.pods.there[key].slot].metadata.name for key in waiting} if self._pinned() else {}
            for key in waiting:
                for name in [own[key] or ""] if own else judge.nodes:
                    if not judge.faults(self._pod(key), name):
                        self.fault("the rollout is said to halt, and the waiting pod fits here", key, name)

    def _pinned(self) -> bool:
        return self.update.kind == "DaemonSet"


def _for_itself(pod: objects.Pod, *, whole: bool = False) -> bool:
    """Return True if a pod does not exclude other pods from other nodes. With ``whole``, it must also not depend on
    other nodes itself.
    """
    affinity = pod.spec.affinity
    if affinity is not None and affinity.podAntiAffinity is not None:
        return False
    together = affinity is not None and affinity.podAffinity is not None
    return not whole or not (together or pod.spec.topologySpreadConstraints or _claims(pod))


def _claims(pod: objects.Pod) -> bool:
    """Return True if a pod takes devices or volumes when it is bound."""
    volumes = pod.spec.volumes or ()
    return bool(pod.spec.resourceClaims) or any(v.persistentVolumeClaim is not None or v.ephemeral is not None for v in volumes)


def _running(pod: objects.Pod, node: str | None) -> objects.Pod:
    """Return a pod as it is when running on a node."""
    change = msgspec.structs.replace
    return change(pod, spec=change(pod.spec, nodeName=node), status=objects.PodStatus(phase="Running"))
