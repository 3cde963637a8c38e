"""The pods of a StatefulSet or a DaemonSet before and after an update, and the limits of its strategy.

Sources: pkg/controller/statefulset/stateful_set_utils.go (getParentNameAndOrdinal, newVersionedStatefulSetPod,
getStatefulSetMaxUnavailable) and pkg/controller/daemon (NodeShouldRunDaemonPod, updatedDesiredNodeCounts) of
Kubernetes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import msgspec

from kubestow.models.documents.placement import Edits, Unmodelled
from kubestow.models.kube import objects
from kubestow.models.kube.lenient_decode import shorten
from kubestow.models.kube.selectors import NodeColumns, Tolerations
from kubestow.models.kube.workload_objects import DeploymentStrategy, RollingUpdate
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads import checks, claims, daemon_sets
from kubestow.models.workloads.deployment_rollout import is_ready, scaled
from kubestow.models.workloads.expand import MAX_PODS, owned
from kubestow.models.workloads.ownership import named
from kubestow.models.workloads.pods import Maker, NotAdmitted, admitted
from kubestow.models.workloads.replicas import Slot, replicas
from kubestow.models.workloads.revisions import reference
from kubestow.models.workloads.rollout_input import undeleted, updated
from kubestow.models.workloads.view import WorkloadView, labelled, view

#: The feature gate without which maxUnavailable of StatefulSets is 1.
MAX_UNAVAILABLE: Final = "MaxUnavailableStatefulSet"
_HASH: Final = "controller-revision-hash"


@dataclass(frozen=True, slots=True)
class UpdatePod:
    """A pod that the workload has or may get.

    Attributes:
        index: Index into the pods of the snapshot.
        slot: The ordinal counted from the first one, or the index of its node in the snapshot.
        new: True if it belongs to the new revision.
        node: Its node at the start; None if it has none.
        ready: True if it serves at the start.
        there: True if it exists at the start.
        born: Its creation time, as in the snapshot.
    """

    index: int
    key: str
    slot: int
    new: bool
    node: str | None
    ready: bool
    there: bool
    born: str = ""


@dataclass(frozen=True)
class Update:
    """An update of a StatefulSet or a DaemonSet.

    Attributes:
        workload: ``namespace/name``.
        obj: The object as it is to be.
        snapshot: The cluster with the manifests, with all members among its pods.
        replicas: Number of pods at the end.
        partition: Slots below it keep their revision (StatefulSets).
        surge: Pods allowed next to old ones (DaemonSets).
        unavailable: Pods allowed to be unavailable.
        parallel: podManagementPolicy is Parallel.
        counts: maxUnavailable counts every unavailable pod (gate MaxUnavailableStatefulSet).
        runs: Slots that are to have a pod.
        keeps: Slots whose pods stay (DaemonSets).
        going: Indices of pods that count as gone: being deleted, or on nodes that the snapshot lacks.
    """

    kind: Literal["StatefulSet", "DaemonSet"]
    workload: str
    obj: Any
    snapshot: Snapshot
    members: tuple[UpdatePod, ...]
    strategy: Literal["RollingUpdate", "OnDelete"]
    replicas: int
    unmodelled: list[Unmodelled]
    partition: int = 0
    surge: int = 0
    unavailable: int = 1
    parallel: bool = False
    counts: bool = False
    runs: frozenset[int] = frozenset()
    keeps: frozenset[int] = frozenset()
    going: tuple[int, ...] = ()

    @property
    def new(self) -> list[UpdatePod]:
        """The pods of the new revision that the update creates."""
        return [member for member in self.members if member.new and not member.there]


def read_update(
    snapshot: Snapshot,
    kind: Literal["StatefulSet", "DaemonSet"],
    name: str,
    manifests: Snapshot | None,
    edits: Edits | None = None,
) -> Update:
    """Return the update of a workload.

    Args:
        snapshot: The cluster.
        kind: Kind of the workload.
        name: ``[NAMESPACE/]NAME``.
        manifests: Hold its new template. None: the template stays, and all pods are replaced.
        edits: Edits already applied to the snapshot.

    Raises:
        InputError: No such workload, or several; or its strategy, template or other manifests are unusable.
    """
    merged, obj = updated(snapshot, kind, name, manifests, edits)
    obj = labelled(obj)
    where = f"{kind} {obj.metadata.namespace or 'default'}/{obj.metadata.name}"
    workload = view(obj)
    problems = list(checks.problems(obj, merged))
    if problems or workload is None:
        raise InputError([f"{where}: {problem}" for problem in problems or ["spec.template: has no pod spec, expected one"]])
    if workload.spec.nodeName:
        raise InputError([f"--rollout {name}: spec.template.spec.nodeName: its pods are not scheduled, expected none"])
    if kind == "StatefulSet" and replicas(obj) > MAX_PODS:
        raise InputError([f"--rollout {name}: spec.replicas: got {replicas(obj)}, expected at most {MAX_PODS:,}"])
    mine = owned(undeleted(merged), kind, workload.namespace, workload.name)
    strategy = obj.spec.updateStrategy or DeploymentStrategy()
    if strategy.type not in (None, "", "RollingUpdate", "OnDelete"):
        raise InputError([f"{where}: spec.updateStrategy.type: got {shorten(strategy.type)}, expected RollingUpdate or OnDelete"])
    reading = _UpdateReader(merged, workload, named(snapshot, kind, workload.namespace, workload.name), mine)
    try:
        return reading.stateful(strategy) if kind == "StatefulSet" else reading.daemon(strategy)
    except NotAdmitted as error:
        raise InputError([f"{where}: {error}"]) from None


def ordinal(name: str, parent: str) -> int | None:
    """Return the ordinal of a StatefulSet's pod by its name; None for other pods (getParentNameAndOrdinal)."""
    head, _, tail = name.rpartition("-")
    return int(tail) if head == parent and tail.isascii() and tail.isdecimal() else None


@dataclass
class _UpdateReader:
    """Reads an update.

    Attributes:
        previous: The workload's object in the cluster.
        mine: Indices of its pods, including those being deleted.
    """

    merged: Snapshot
    workload: WorkloadView
    previous: Any | None
    mine: Sequence[int]

    def stateful(self, strategy: DeploymentStrategy) -> Update:
        obj, rolls = self.workload.obj, strategy.type != "OnDelete"
        rolling = strategy.rollingUpdate or RollingUpdate()
        wanted = replicas(obj)
        start = (obj.spec.ordinals.start if obj.spec.ordinals is not None else None) or 0
        partition = min(wanted, rolling.partition or 0) if rolls else 0
        counts = self.merged.gates.enabled(MAX_UNAVAILABLE)
        unavailable = max(1, self._scaled(rolling.maxUnavailable, 1, wanted, up=False)) if counts else 1
        slots = {i: k for i in self.mine if (k := ordinal(self.merged.pods[i].metadata.name or "", self.workload.name)) is not None}
        old, going = self._old({i: k - start for i, k in slots.items()})
        there = {member.slot for member in old}
        made = [slot for slot in range(wanted) if slot >= partition or not rolls]
        lacking = [slot for slot in range(partition) if slot not in there] if rolls else []
        snapshot, members, unmodelled = self._made(
            [(self.workload, made, True), (view(labelled(self.previous)) if self.previous is not None else None, lacking, False)], start
        )
        return Update(
            "StatefulSet", f"{self.workload.namespace}/{self.workload.name}", obj, snapshot, (*old, *members),
            "RollingUpdate" if rolls else "OnDelete", wanted, unmodelled, partition, 0, unavailable,
            obj.spec.podManagementPolicy == "Parallel", counts, frozenset(range(wanted)), frozenset(), tuple(going),
        )  # fmt: skip

    def daemon(self, strategy: DeploymentStrategy) -> Update:
        nodes, rolls = self.merged.nodes, strategy.type != "OnDelete"
        spec = admitted(self.workload.spec, self.workload.namespace, self.merged)
        spec = msgspec.structs.replace(spec, tolerations=daemon_sets.tolerations(spec))
        places = {node.metadata.name or "": n for n, node in enumerate(nodes)}
        table = NodeColumns(nodes)
        runs = {places[name] for name in daemon_sets.eligible(spec, table, self.merged.gates)}
        stays = daemon_sets.eligible(
            msgspec.structs.replace(spec, tolerations=[objects.Toleration(operator="Exists")]), table, self.merged.gates
        )
        tolerated = table.tolerated(Tolerations(spec.tolerations or (), self.merged.gates), frozenset({"NoExecute"}))
        keeps = runs | {places[name] for name in stays if tolerated[table.names.index(name)]}
        rolling = strategy.rollingUpdate or RollingUpdate()
        surge = self._scaled(rolling.maxSurge, 0, len(runs), up=True) if rolls else 0
        unavailable = self._scaled(rolling.maxUnavailable, 0 if surge else 1, len(runs), up=True)
        if surge and unavailable:
            where = f"{self.workload.ref}: spec.updateStrategy.rollingUpdate"
            raise InputError(
                [f"{where}: got maxSurge {rolling.maxSurge} and maxUnavailable {rolling.maxUnavailable}, expected one to be 0"]
            )
        targets = {i: daemon_sets.target(self.merged.pods[i]) for i in self.mine}
        old, going = self._old({i: places[node] for i, node in targets.items() if node in places})
        going += [i for i, node in targets.items() if node not in places]
        snapshot, members, unmodelled = self._made([(self.workload, sorted(runs), True)], 0)
        return Update(
            "DaemonSet", f"{self.workload.namespace}/{self.workload.name}", self.workload.obj, snapshot, (*old, *members),
            "RollingUpdate" if rolls else "OnDelete", len(runs), unmodelled, 0, surge, 0 if surge else max(1, unavailable),
            runs=frozenset(runs), keeps=frozenset(keeps), going=tuple(sorted(set(going))),
        )  # fmt: skip

    def _scaled(self, value: int | str | None, default: int, of: int, *, up: bool) -> int:
        try:
            return scaled(default if value is None else value, of, up=up)
        except ValueError as error:
            raise InputError([f"{self.workload.ref}: spec.updateStrategy.rollingUpdate: {error}"]) from error

    def _old(self, slots: dict[int, int]) -> tuple[list[UpdatePod], list[int]]:
        """Return the existing pods as members, and the indices of pods that are being deleted.

        Args:
            slots: Slot of each pod, by index into ``merged.pods``.
        """
        members, going = [], []
        for i, slot in slots.items():
            pod = self.merged.pods[i]
            if objects.is_terminating(pod):
                going.append(i)
                continue
            node, ready = pod.spec.nodeName or None, is_ready(pod)
            born = pod.metadata.creationTimestamp or ""
            members.append(UpdatePod(i, objects.pod_key(pod), slot, False, node, bool(node) and ready, True, born))
        return members, going

    def _made(
        self, parts: Sequence[tuple[WorkloadView | None, list[int], bool]], start: int
    ) -> tuple[Snapshot, list[UpdatePod], list[Unmodelled]]:
        """Return the snapshot with the pods that the controller may make, these pods, and the assumptions about
        their claims.

        Args:
            parts: Templates, the slots that get their pods, and True for the new revision.
            start: The first ordinal.
        """
        mine = set(self.mine) if self.workload.kind == "StatefulSet" else set()  # its new pods have the names of the old ones
        bare = replace(self.merged.copy(), pods=[pod for i, pod in enumerate(self.merged.pods) if i not in mine])
        made: list[tuple[objects.Pod, int, bool]] = []
        claim_templates: dict[str, Any] = {}
        for workload, slots, new in parts:
            if workload is None or not slots:
                continue
            maker = Maker(bare.copy())
            revision = self._revision(maker, workload, new=new)
            pods = maker.pods(workload, [self._slot(workload, slot, start, revision) for slot in slots], reference(workload.obj))
            made += zip(pods, slots, [new] * len(slots), strict=True)
            claim_templates |= maker.claims
        snapshot = self.merged.copy()
        unmodelled = claims.provide(snapshot, [pod for pod, _, _ in made], claim_templates, ())
        first = len(snapshot.pods)
        snapshot.pods = [*snapshot.pods, *(pod for pod, _, _ in made)]
        members = [UpdatePod(first + n, objects.pod_key(pod), slot, new, None, False, False) for n, (pod, slot, new) in enumerate(made)]
        return snapshot, members, unmodelled

    def _revision(self, maker: Maker, workload: WorkloadView, *, new: bool) -> str:
        """Return the label of a revision: an unused one for the new revision, that of most pods for the old one."""
        known = [label for i in self.mine if (label := (self.merged.pods[i].metadata.labels or {}).get(_HASH))]
        if not new and known:
            return max(sorted(set(known)), key=known.count)
        prefix = f"{workload.name}-" if workload.kind == "StatefulSet" else ""
        hash_label = maker.revisions.label(workload, [], None, prefix)
        return f"{hash_label}-next" if hash_label in known else hash_label

    def _slot(self, workload: WorkloadView, slot: int, start: int, revision: str) -> Slot:
        if workload.kind == "DaemonSet":
            return Slot(base=f"{workload.name}-", labels={_HASH: revision}, node=self.merged.nodes[slot].metadata.name or "")
        name = f"{workload.name}-{start + slot}"
        labels = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(start + slot), _HASH: revision}
        return Slot(name, labels=labels)
