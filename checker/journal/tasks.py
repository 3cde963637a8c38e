"""The tasks of a document, pod by pod."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from kubestow.checker.plan.document import entries
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.kube import kinds, objects
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.ownership import OwnedPods, named, pod_sets
from kubestow.models.workloads.view import selector

#: Kinds of workloads whose pods are not created together with the workload.
KINDS_WITH_LATER_PODS: Final = ("CronJob", "PodTemplate")
#: The effect on a pod: it gets a node, another node, or none.
Purpose = Literal["bind", "move", "evict"]


@dataclass(frozen=True, slots=True)
class PodTask:
    """A task for one pod.

    Attributes:
        step: Step number in the plan; for a Placement, the bind order.
        wave: Wave number; 1 for a Placement.
        pod: ``namespace/name`` in the document.
        source: Current node; None if the pod is pending.
        target: Planned node; None if the pod is evicted for good.
        waits: True if its rules count other pods, so that those before it in the bind order must be bound first.
    """

    step: int
    wave: int
    pod: str
    source: str | None
    target: str | None
    waits: bool = False

    @property
    def purpose(self) -> Purpose:
        """The effect on the pod."""
        return "evict" if self.target is None else "bind" if self.source is None else "move"

    @property
    def place(self) -> str:
        """The node that a fault refers to."""
        return self.target or self.source or ""


@dataclass(frozen=True)
class Tasks:
    """All tasks of a document.

    Attributes:
        all: Tasks by step and pod, in order.
        pods: Pods of the snapshot, by key.
        uids: Uids of these pods.
        drain: Nodes that stay cordoned at the end.
    """

    all: dict[tuple[int, str], PodTask]
    pods: dict[str, objects.Pod]
    uids: frozenset[str]
    drain: frozenset[str] = field(default_factory=frozenset)

    def find(self, step: int | None, pod: str | None) -> PodTask | None:
        """Return the task of a journal line, or None."""
        return None if step is None or pod is None else self.all.get((step, pod))

    def final(self) -> dict[str, PodTask]:
        """Return the last task of each pod."""
        return {task.pod: task for task in self.all.values()}

    def uid(self, pod: str) -> str | None:
        """Return the uid that a pod has in the snapshot, or None."""
        pod_object = self.pods.get(pod)
        return pod_object.metadata.uid or None if pod_object is not None else None


def tasks_of(document: Placement | RebalancePlan, snapshot: Snapshot) -> Tasks:
    """Return the tasks of a document. ``snapshot`` is the document's snapshot."""
    pods = {objects.pod_key(pod): pod for pod in snapshot.pods}
    uids = frozenset(pod.metadata.uid for pod in snapshot.pods if pod.metadata.uid)
    if isinstance(document, RebalancePlan):
        found = [PodTask(entry.step, entry.wave, entry.pod, entry.source, entry.target) for entry in entries(document)]
        return Tasks({(task.step, task.pod): task for task in found}, pods, uids, frozenset(document.drain))
    running = {key for key, pod in pods.items() if pod.spec.nodeName}
    found = [
        PodTask(entry.order, 1, entry.pod, None, entry.node, entry.pod in pods and _counts_others(pods[entry.pod]))
        for entry in sorted(document.assignments, key=lambda entry: entry.order)
        if entry.pod not in running
    ]
    return Tasks({(task.step, task.pod): task for task in found}, pods, uids)


def _counts_others(pod: objects.Pod) -> bool:
    """Return True if a required rule of the pod depends on other pods."""
    affinity = pod.spec.affinity.podAffinity if pod.spec.affinity else None
    near = affinity is not None and (
        affinity.requiredDuringSchedulingIgnoredDuringExecution or affinity.requiredDuringSchedulingRequiredDuringExecution
    )
    spread = any(constraint.whenUnsatisfiable == "DoNotSchedule" for constraint in pod.spec.topologySpreadConstraints or ())
    return bool(near) or spread


@dataclass(frozen=True)
class Gated:
    """A placement of manifests.

    Attributes:
        workloads: Workloads with pods, as ``Kind namespace/name``.
        existed: Workloads that existed before.
        places: Tasks that pods of the cluster may take, by step and pod. The step of a pod that ran before is 0.
        refs: Workload of each pod, by the document's name.
        gangs: Gang of each pod, by the document's name.
        by_uid: Name of each pod of the snapshot, by uid.
        prefixes: Beginning of the names of the pods of each custom workload.
    """

    workloads: tuple[str, ...]
    existed: frozenset[str]
    places: dict[tuple[int, str], PodTask]
    refs: dict[str, str]
    gangs: dict[str, str]
    by_uid: dict[str, str]
    prefixes: dict[str, str]


def gated_of(document: Placement, before: Snapshot, snapshot: Snapshot) -> tuple[Tasks, Gated]:
    """Return the tasks of a placement of manifests.

    Pods of DaemonSets, and pods that appear later or never, are not tasks of one run.

    Args:
        document: The placement.
        before: The cluster.
        snapshot: The cluster with the pods of the manifests.
    """
    workloads = tuple(ref for ref in document.snapshot.workloads if not ref.startswith("DaemonSet "))
    refs = {objects.pod_key(snapshot.pods[i]): ref for ref, found in pods_of(snapshot, workloads).items() for i in found}
    tasks = tasks_of(document, snapshot)
    places = {key: task for key, task in tasks.all.items() if task.pod in refs}
    assigned = {entry.pod for entry in document.assignments}
    for key, pod in tasks.pods.items():
        if key in refs and key not in assigned and pod.spec.nodeName:
            places[0, key] = PodTask(0, 1, key, None, pod.spec.nodeName)
    left_alone = {ref for ref in document.snapshot.workloads if ref.partition(" ")[0] in ("DaemonSet", *KINDS_WITH_LATER_PODS)}
    others = {objects.pod_key(snapshot.pods[i]) for found in pods_of(snapshot, left_alone).values() for i in found}
    todo = {key: task for key, task in tasks.all.items() if task.pod not in others}
    existed = frozenset(ref for ref in workloads if _existed(before, ref))
    gangs = {entry.pod: entry.gang for entry in document.assignments if entry.gang}
    by_uid = {pod.metadata.uid: key for key, pod in tasks.pods.items() if pod.metadata.uid}
    sets = {f"{kind} {namespace}/{name}": spec for (kind, namespace, name), spec in pod_sets(snapshot).items()}
    prefixes = {ref: sets[ref].pod.partition("{")[0] for ref in workloads if ref in sets}
    return Tasks(todo, tasks.pods, tasks.uids), Gated(workloads, existed, places, refs, gangs, by_uid, prefixes)


def with_sets(snapshot: Snapshot, other: Snapshot) -> Snapshot:
    """Return a snapshot with the pod sets of another one, so that the pods of its custom workloads are known."""
    sets = {kind: found for kind, found in other.workloads.items() if kind not in kinds.KINDS}
    return replace(snapshot, workloads={**snapshot.workloads, **sets}) if sets else snapshot


def pods_of(snapshot: Snapshot, refs: Iterable[str], *, over: bool = False) -> dict[str, list[int]]:
    """Return indices into ``snapshot.pods`` by workload.

    Args:
        snapshot: The snapshot.
        refs: Workloads, as ``Kind namespace/name``.
        over: True to include pods that have ended or are being deleted.
    """
    owners = OwnedPods(snapshot)
    found = {}
    for ref in refs:
        kind, _, key = ref.partition(" ")
        namespace, _, name = key.partition("/")
        if kind == "Pod":
            found[ref] = [i for i, pod in enumerate(snapshot.pods) if objects.pod_key(pod) == key]
        else:
            found[ref] = owners.of(kind, namespace, name, selector(named(snapshot, kind, namespace, name)))
            found[ref] += owners.finished(kind, namespace, name) if over else []
    return found


def _existed(before: Snapshot, ref: str) -> bool:
    kind, _, key = ref.partition(" ")
    namespace, _, name = key.partition("/")
    if kind == "Pod":
        return any(objects.pod_key(pod) == key for pod in before.pods)
    return named(before, kind, namespace, name) is not None
