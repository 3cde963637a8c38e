"""Pods that run on every suitable new node: pods of DaemonSets, by their controller's rules, and static pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from kubestow.models.kube import objects
from kubestow.models.kube.selectors import NodeColumns
from kubestow.models.snapshot.scope import is_mirror
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads.daemon_sets import eligible, settled, target
from kubestow.models.workloads.daemon_sets import resident as is_resident
from kubestow.models.workloads.ownership import named
from kubestow.models.workloads.pods import Maker, NotAdmitted
from kubestow.models.workloads.replicas import Slot
from kubestow.models.workloads.revisions import reference
from kubestow.models.workloads.template import PodNames
from kubestow.models.workloads.view import selector, view

_CONTROL_PLANE: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
#: Placeholder for the node of a pod without a node. It is no valid node name.
_NOWHERE: Final = "*"
_RUNNING: Final = objects.PodStatus(phase="Running")
_change = msgspec.structs.replace


@dataclass(frozen=True)
class Resident:
    """A pod that runs on every suitable node.

    Attributes:
        pod: The pod, as it is on the node ``old``.
        old: The name of that node.
        runs: Returns True if a node has such a pod.
    """

    pod: objects.Pod
    old: str
    runs: Callable[[objects.Node], bool]


class Residents:
    """The resident pods of new nodes, inferred from ``original``. New pods avoid the names of pods in either snapshot."""

    def __init__(self, edited: Snapshot, original: Snapshot) -> None:
        self._original = original
        self._names = PodNames({objects.pod_key(pod) for snapshot in (edited, original) for pod in snapshot.pods})
        self.workers = [node for node in original.nodes if not any(role in (node.metadata.labels or {}) for role in _CONTROL_PLANE)]
        self.guessed: list[str] = []
        self._residents = [*self._of_objects(), *self._of_pods(), *self._static()]

    def on(self, node: objects.Node) -> list[objects.Pod]:
        """Return the resident pods of a node, bound to it and with unique names."""
        return self.settle(self.of(node), node.metadata.name or "")

    def of(self, node: objects.Node) -> list[Resident]:
        """Return the residents of a node. They are the same for all nodes that differ only in name."""
        return [resident for resident in self._residents if resident.runs(node)]

    def settle(self, residents: Iterable[Resident], node: str) -> list[objects.Pod]:
        """Return the pods of residents on a node, bound to it and with unique names."""
        settled_ = (settled(resident.pod, resident.old, node, self._names.suffixed) for resident in residents)
        return [_change(pod, status=_RUNNING, containerIds=None) for pod in settled_]

    def _of_objects(self) -> Iterator[Resident]:
        daemon_sets = self._original.workloads.get("DaemonSet", ())
        if not daemon_sets:
            return
        maker = Maker(self._original.copy())
        gates = self._original.gates
        for obj in daemon_sets:
            workload = view(obj)
            if workload is None or obj.metadata.deletionTimestamp is not None:
                continue
            running = [self._original.pods[i] for i in maker.owners.of("DaemonSet", workload.namespace, workload.name, selector(obj))]
            labels = {"controller-revision-hash": maker.revisions.label(workload, running, obj, "")}
            try:
                [pod] = maker.pods(workload, [Slot(base=f"{workload.name}-", labels=labels, node=_NOWHERE)], reference(obj))
            except NotAdmitted as error:
                raise InputError([f"{workload.ref}: {error}"]) from None
            spec = workload.spec
            # mypy infers no type for a lambda that binds a loop variable as a default
            yield Resident(pod, _NOWHERE, lambda node, spec=spec: bool(eligible(spec, NodeColumns([node]), gates)))  # type: ignore[misc]

    def _of_pods(self) -> Iterator[Resident]:
        """Yield residents for DaemonSets with pods in the snapshot but without an object with a template.

        The controller replaced the required node affinity by the name of a node. The original affinity is guessed from the nodes that run
        such pods.
        """
        found: dict[tuple[str, str], list[objects.Pod]] = {}
        for pod in self._original.pods:
            owner, namespace = objects.controller_of(pod), pod.metadata.namespace or "default"
            if is_resident(pod) and owner is not None and owner.kind == "DaemonSet":
                found.setdefault((namespace, owner.name), []).append(pod)
        table = NodeColumns(self._original.nodes) if found else None
        for (namespace, name), pods in found.items():
            if table is None or view(named(self._original, "DaemonSet", namespace, name)) is not None:
                continue
            newest = max(pods, key=lambda pod: (pod.metadata.creationTimestamp or "", pod.metadata.name or ""))
            old = target(newest) or ""
            spec = unpinned(newest.spec, old)
            here = {target(pod) for pod in pods}
            without = [node for node in eligible(spec, table, self._original.gates) if node not in here]
            yield Resident(newest, old, self._like(spec, here, set(without)))
            if without:
                self.guessed.append(f"DaemonSet {namespace}/{name}")

    def _like(self, spec: objects.PodSpec, here: set[str | None], without: set[str]) -> Callable[[objects.Node], bool]:
        """Return a predicate for nodes that run the DaemonSet: eligible by its template, and with a distinguishing label if there is one.

        A label distinguishes if all nodes ``here``, which run the DaemonSet, have it and no other eligible node (``without``) does.
        """
        labels = {node.metadata.name: set((node.metadata.labels or {}).items()) for node in self._original.nodes}
        shared = set.intersection(*label_sets) if (label_sets := [labels[name] for name in here if name in labels]) else set()
        telling = {label for label in shared if not any(label in labels[name] for name in without)} if without else set()
        gates = self._original.gates

        def runs(node: objects.Node) -> bool:
            own = (node.metadata.labels or {}).items()
            alike = not telling or any(label in own for label in telling)
            return alike and bool(eligible(spec, NodeColumns([node]), gates))

        return runs

    def _static(self) -> Iterator[Resident]:
        """Yield static pods named ``NAME-NODE`` that every worker has."""
        workers = {node.metadata.name or "" for node in self.workers}
        found: dict[tuple[str, str], dict[str, objects.Pod]] = {}
        for pod in self._original.pods:
            at, name = pod.spec.nodeName or "", pod.metadata.name or ""
            if at in workers and is_mirror(pod) and is_resident(pod) and name.endswith(f"-{at}"):
                found.setdefault((pod.metadata.namespace or "default", name.removesuffix(f"-{at}")), {})[at] = pod
        for pods in found.values():
            if len(pods) == len(workers):
                old = next(node.metadata.name or "" for node in self.workers)
                yield Resident(pods[old], old, lambda node: True)


def unpinned(spec: objects.PodSpec, node: str) -> objects.PodSpec:
    """Return the spec of a DaemonSet's pod without the node that the controller set."""
    free = _change(spec, nodeName=None)
    affinity = free.affinity
    if affinity is None or affinity.nodeAffinity is None or target(objects.Pod(objects.ObjectMeta(), free)) != node:
        return free
    return _change(
        free, affinity=_change(affinity, nodeAffinity=_change(affinity.nodeAffinity, requiredDuringSchedulingIgnoredDuringExecution=None))
    )
