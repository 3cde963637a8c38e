"""Running pods, compiled as if each were to be placed on its own node. The checks of broken rules use them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec
import numpy as np

from kubestow.audit.view.usable_nodes import INDIFFERENT
from kubestow.audit.view.view import ClusterView
from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.kube.objects import Pod, is_terminating, pod_key
from kubestow.models.snapshot.scope import Scope
from kubestow.models.snapshot.snapshot import Snapshot


@dataclass
class FindingGroup:
    """The pods (indices) and the names of nodes or domains of one finding, without duplicates, in insertion order."""

    pods: dict[int, None] = field(default_factory=dict)
    places: dict[str, None] = field(default_factory=dict)

    def add(self, pods: Iterable[int], *places: str) -> None:
        self.pods.update(dict.fromkeys(pods))
        self.places.update(dict.fromkeys(places))


class Running:
    """Living pods on nodes of a snapshot, in classes. Terminating pods have separate classes.

    Attributes:
        view: The cluster.
        snapshot: The snapshot of the view, or a copy with changed pod rules.
        cluster: The compiled cluster.
        steady: By class, True unless its pods are terminating. Only steady pods are reported.
        cells: By class, its nodes, ascending, each with the indices of its pods there.

    Raises:
        InputError: As for :func:`kubestow.models.cluster.compile.compile_cluster`.
    """

    def __init__(self, view: ClusterView, snapshot: Snapshot | None = None) -> None:
        self.view = view
        self.snapshot = snapshot or view.snapshot
        pods = self.snapshot.pods
        self.cluster: Cluster = compile_cluster(
            self.snapshot,
            Scope(pending=view.running),
            daemon_namespaces=view.exempt,
            policy=msgspec.structs.replace(view.policy, multipliers=INDIFFERENT),
            running={i: int(is_terminating(pods[i])) for i in view.running},
        )
        self.steady = [not is_terminating(pods[cls.pods[0]]) for cls in self.cluster.classes]
        self.cells: list[list[tuple[int, list[int]]]] = []
        for cls in self.cluster.classes:
            at: dict[int, list[int]] = {}
            for i in cls.pods:
                at.setdefault(view.node_index[pods[i].spec.nodeName or ""], []).append(i)
            self.cells.append(sorted(at.items()))

    @cached_property
    def nodes(self) -> list[Ints]:
        """By class, int64: the nodes of its cells."""
        return [np.array([n for n, _ in cells], dtype=np.int64) for cells in self.cells]

    def on(self, name: int) -> list[tuple[int, list[int]]]:
        """Return the classes on a node, each with its pods there."""
        return self._by_node.get(name, [])

    @cached_property
    def _by_node(self) -> dict[int, list[tuple[int, list[int]]]]:
        found: dict[int, list[tuple[int, list[int]]]] = {}
        for g, cells in enumerate(self.cells):
            for n, pods in cells:
                found.setdefault(n, []).append((g, pods))
        return found

    def is_steady(self, i: int) -> bool:
        return not is_terminating(self.snapshot.pods[i])

    def priority(self, i: int) -> int:
        return self.snapshot.pods[i].spec.priority or 0

    def first_to_go(self, pods: Iterable[int]) -> list[int]:
        """Return pods in the order of removal: lowest priority first, then youngest, then by name."""
        found = sorted(pods, key=lambda i: pod_key(self.snapshot.pods[i]))
        found.sort(key=lambda i: self.snapshot.pods[i].metadata.creationTimestamp or "", reverse=True)
        return sorted(found, key=self.priority)

    def domain(self, key: str, n: int) -> str | None:
        """Return ``key=value`` of a node, or None if it lacks the key."""
        value = self.cluster.nodes.labels(n).get(key)
        return None if value is None else f"{key}={value}"


def whose(view: ClusterView, i: int) -> tuple[str, str]:
    """Return the object under which a pod is reported and the path of its pod spec: its workload, or the pod itself."""
    subject = view.subject_of.get(i)
    return (subject.name, subject.path) if subject is not None else (f"Pod {pod_key(view.snapshot.pods[i])}", "spec")


def runs(view: ClusterView, pods: Sequence[int]) -> str:
    """Return a phrase such as ``2 of 5 pods run`` for pods of one object."""
    subject = view.subject_of.get(pods[0])
    whole = len(subject.pods) if subject is not None else 1
    return f"{len(pods)} of {whole} pods run{'s' * (len(pods) == 1)}" if whole > 1 else "its pod runs"


def without_execution(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot without pod terms that must hold during execution.

    Pod affinity keeps them if it has other terms, because the scheduler looks for pods that match all terms. Node
    affinity keeps them because topology spread counts on the nodes that it allows.
    """
    return _changed(snapshot, enforced=False)


def only_execution(snapshot: Snapshot) -> Snapshot | None:
    """Return the snapshot with only the rules that must hold during execution, as plain required terms. None if there are none."""
    return _changed(snapshot, enforced=True) if any(has_execution(pod) for pod in snapshot.pods) else None


def has_execution(pod: Pod) -> bool:
    """Return True if the pod has a rule that must hold during execution (requiredDuringSchedulingRequiredDuringExecution)."""
    affinity = pod.spec.affinity
    return affinity is not None and any(
        part is not None and part.requiredDuringSchedulingRequiredDuringExecution
        for part in (affinity.nodeAffinity, affinity.podAffinity, affinity.podAntiAffinity)
    )


def _changed(snapshot: Snapshot, *, enforced: bool) -> Snapshot:
    return replace(snapshot, pods=[_pod(pod, enforced=enforced) for pod in snapshot.pods])


def _pod(pod: Pod, *, enforced: bool) -> Pod:
    change, affinity = msgspec.structs.replace, pod.spec.affinity
    if affinity is None:
        return change(pod, spec=change(pod.spec, nodeSelector=None)) if enforced else pod
    if not (enforced or has_execution(pod)):
        return pod
    parts = {}
    for name in ("nodeAffinity", "podAffinity", "podAntiAffinity") if enforced else ("podAffinity", "podAntiAffinity"):
        part = getattr(affinity, name)
        if part is None:
            continue
        plain, execution = part.requiredDuringSchedulingIgnoredDuringExecution, part.requiredDuringSchedulingRequiredDuringExecution
        if enforced:
            plain, execution = execution, None
        elif name != "podAffinity" or not plain:
            execution = None
        parts[name] = change(
            part, requiredDuringSchedulingIgnoredDuringExecution=plain, requiredDuringSchedulingRequiredDuringExecution=execution
        )
    spec = change(pod.spec, affinity=change(affinity, **parts))
    return change(pod, spec=change(spec, nodeSelector=None) if enforced else spec)
