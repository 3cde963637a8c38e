"""The audited snapshot with its workloads, and a cache of data that checks derive from it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeVar, cast

import msgspec

from kubestow.models.cluster.unknown_namespaces import Undecided, undecided
from kubestow.models.documents.policy import DEFAULT, Policy
from kubestow.models.execution.execution_grace import NO_HISTORY, History
from kubestow.models.kube import kinds, objects
from kubestow.models.kube.objects import Pod, controller_of, is_terminal, is_terminating, pod_key
from kubestow.models.kube.pod_spec import affinity_terms
from kubestow.models.kube.selectors import NodeColumns
from kubestow.models.snapshot.scope import is_mirror
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.checks import Audience
from kubestow.models.workloads.ownership import HASH, OwnedPods, PodOwners, made_by_custom
from kubestow.models.workloads.pods import NotAdmitted, admitted
from kubestow.models.workloads.replicas import job_wanted, stated_pods, suspended
from kubestow.models.workloads.revisions import same_template
from kubestow.models.workloads.template import template_hash
from kubestow.models.workloads.view import WorkloadView, labelled, listed, view
from kubestow.solver.executors.pool import WorkerPool

_change = msgspec.structs.replace
_T = TypeVar("_T")


@dataclass(frozen=True)
class Subject:
    """A workload, or a group of equal bare pods.

    Attributes:
        name: ``Kind namespace/name``.
        pod: A representative pod without a node: from the template, or the first of ``pods`` if the snapshot lacks
            the workload.
        path: Field of its pod spec.
        pods: Indices into ``snapshot.pods``, ascending, without terminated and terminating pods.
        wanted: Desired number of pods at a time. For a DaemonSet, or if the snapshot lacks the workload: the
            current number.
        workload: None if the snapshot lacks it.
    """

    name: str
    pod: Pod
    path: str
    pods: tuple[int, ...]
    wanted: int
    workload: WorkloadView | None = None

    @property
    def kind(self) -> str:
        return self.name.partition(" ")[0]

    @property
    def namespace(self) -> str:
        return self.pod.metadata.namespace or "default"

    @property
    def labels(self) -> dict[str, str]:
        return self.pod.metadata.labels or {}


@dataclass
class ClusterView:
    """A snapshot under audit.

    Attributes:
        snapshot: The snapshot.
        policy: Weights and switches of the policy file.
        exempt: Namespaces exempt from hard anti-affinity.
        machine_labels: Node labels of physical machines. Empty: the defaults.
        stage_labels: Node labels of larger failure domains, by name. Empty: the defaults.
        began: Start of the audit on the monotonic clock, in seconds.
        deadline: End of the audit on the monotonic clock, in seconds.
        stop: Set when the user ends the audit.
        not_checked: Parts that could not be checked, with the reason. Checks append to it.
        pool: Workers that share searches.
        history: Earlier observations of the cluster.
    """

    snapshot: Snapshot
    policy: Policy = DEFAULT
    exempt: tuple[str, ...] = ()
    machine_labels: tuple[str, ...] = ()
    stage_labels: dict[str, str] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    deadline: float = field(default_factory=lambda: time.monotonic() + 60)
    stop: threading.Event = field(default_factory=threading.Event)
    not_checked: list[str] = field(default_factory=list)
    pool: WorkerPool | None = None
    history: History = NO_HISTORY
    _made_once: dict[object, object] = field(default_factory=dict, repr=False)

    def once(self, make: Callable[[ClusterView], _T]) -> _T:
        """Return ``make(self)``, computed once per view and shared by all checks. ``make`` is a class or a module-level function."""
        if make not in self._made_once:
            self._made_once[make] = make(self)
        return cast(_T, self._made_once[make])

    @cached_property
    def nodes(self) -> NodeColumns:
        return NodeColumns(self.snapshot.nodes)

    @cached_property
    def audience(self) -> Audience:
        """Label sets by namespace, of existing pods and of pods that templates will create."""
        made = [subject.pod for subject in self.subjects if subject.workload is not None]
        whole = self.snapshot.copy()
        whole.pods = [*self.snapshot.pods, *made]
        return Audience(whole)

    @cached_property
    def unknown_namespaces(self) -> frozenset[str]:
        """Namespaces of pods and templates without a Namespace object in the snapshot, so that their labels are unknown."""
        return frozenset({subject.namespace for subject in self.subjects} - self.snapshot.namespaces.keys())

    @cached_property
    def undecided(self) -> Undecided | None:
        """Pod terms that depend on the labels of such namespaces."""
        return undecided(self.snapshot)

    @property
    def unsure(self) -> frozenset[int]:
        """Indices of the pods with a required term of this kind."""
        return self.undecided.required if self.undecided is not None else frozenset()

    @cached_property
    def running(self) -> list[int]:
        """Indices of the pods on nodes of the snapshot, including terminating but not terminated ones."""
        names = set(self.nodes.names)
        return [i for i, pod in enumerate(self.snapshot.pods) if pod.spec.nodeName in names and not is_terminal(pod)]

    @cached_property
    def node_index(self) -> dict[str, int]:
        return {name: n for n, name in enumerate(self.nodes.names)}

    @cached_property
    def subjects(self) -> list[Subject]:
        """All top-level workloads, including those of operators, then the pods whose workload is missing, with
        equal bare pods grouped.

        Finished Jobs and old revisions without pods are left out, and static pods belong to no subject.
        """
        return list(self._subjects())

    @cached_property
    def subject_of(self) -> dict[int, Subject]:
        """The subject by pod index, for pods that have one."""
        return {i: subject for subject in self.subjects for i in subject.pods}

    def search_until(self) -> float:
        """Return the end time for searches that start now, on the monotonic clock.

        They get a quarter of the audit's time, so that the hardest searches leave time for the others.
        """
        return min(self.deadline, time.monotonic() + (self.deadline - self.began) / 4)

    def keys(self, pods: Iterable[int]) -> list[str]:
        """Return ``namespace/name`` for pod indices."""
        return [pod_key(self.snapshot.pods[i]) for i in pods]

    def homes(self, pods: Iterable[int]) -> list[int]:
        """Return the node indices of the given pods that run on nodes of the snapshot."""
        found = (self.node_index.get(self.snapshot.pods[i].spec.nodeName or "") for i in pods)
        return [n for n in found if n is not None]

    def _subjects(self) -> Iterator[Subject]:
        snapshot, owned = self.snapshot, OwnedPods(self.snapshot)
        there = {(kinds.name_of(o), o.metadata.namespace or "default", o.metadata.name or ""): o for o in listed(snapshot)}
        grouped: set[int] = set()
        for obj in listed(snapshot):
            owner = controller_of(obj)
            # Pods of a Deployment use its name even if the snapshot lacks it; a workload of an operator keeps its
            # own name.
            if owner is not None and made_by_custom(snapshot, owner, obj):
                continue
            if owner is not None and (owner.kind == "Deployment" or (owner.kind, obj.metadata.namespace or "default", owner.name) in there):
                continue
            workload = view(labelled(obj))
            if workload is None:
                continue
            pods = tuple(i for i in owned.of(workload.kind, workload.namespace, workload.name) if i not in grouped)
            if not pods and (_is_over(workload) or (owner is not None and workload.kind in _REVISIONS and not stated_pods(workload))):
                continue
            grouped.update(pods)
            label = self._hash(workload, pods, there) if workload.kind == "Deployment" else None
            yield Subject(workload.ref, self._made(workload, label), f"{workload.path}.spec", pods, _wanted(workload, pods), workload)
        ungrouped = [
            i
            for i, pod in enumerate(snapshot.pods)
            if i not in grouped and not is_terminal(pod) and not is_terminating(pod) and not is_mirror(pod)
        ]
        for name, members in PodOwners(snapshot).group(ungrouped).items():
            first = snapshot.pods[min(members)]
            pods = tuple(sorted(members))
            yield Subject(name, Pod(first.metadata, _change(first.spec, nodeName=None), first.status), "spec", pods, len(pods))

    def _hash(self, workload: WorkloadView, pods: tuple[int, ...], there: Mapping[tuple[str, str, str], Any]) -> str:
        """Return the pod-template-hash for new pods of a Deployment.

        This is the hash of existing pods if a rule reads it and their ReplicaSet has the same template or is
        missing from the snapshot.

        Args:
            workload: The Deployment.
            pods: Indices of its pods.
            there: Workloads by kind, namespace and name.
        """
        known: dict[str, list[int]] = {}
        for i in pods if _reads_own_labels(workload) else ():
            owner = controller_of(self.snapshot.pods[i])
            known.setdefault(owner.name if owner is not None else "", []).append(i)
        for name, members in sorted(known.items(), key=lambda each: -len(each[1])):
            obj = there.get(("ReplicaSet", workload.namespace, name))
            label = (self.snapshot.pods[members[0]].metadata.labels or {}).get(HASH)
            if label and (obj is None or same_template(workload, obj)):
                return label
        return template_hash(workload.template)

    def _made(self, workload: WorkloadView, label: str | None) -> Pod:
        """Return a pod as the workload would create it, without fields that differ per pod. ``label`` is its pod-template-hash."""
        try:
            spec = admitted(workload.spec, workload.namespace, self.snapshot)
        except NotAdmitted:
            spec = _change(workload.spec, priority=0)
        labels = workload.labels
        if label is not None:
            labels.setdefault(HASH, label)
        metadata = objects.ObjectMeta(
            name=f"{workload.name}-", namespace=workload.namespace, labels=labels or None, annotations=workload.annotations or None
        )
        return Pod(metadata, spec, None)


def _reads_own_labels(workload: WorkloadView) -> bool:
    """Return True if a rule of the pods reads their own labels (matchLabelKeys, mismatchLabelKeys)."""
    pod = Pod(objects.ObjectMeta(), workload.spec)
    terms = [term for kind in ("podAffinity", "podAntiAffinity") for term, _ in affinity_terms(pod, kind)]
    return any(c.matchLabelKeys for c in workload.spec.topologySpreadConstraints or ()) or any(
        term.matchLabelKeys or term.mismatchLabelKeys for term in terms
    )


#: Kinds whose old revisions an operator keeps, without pods, for rollbacks.
_REVISIONS: Final = ("ReplicaSet", "ReplicationController")


def _is_over(workload: WorkloadView) -> bool:
    """Return True if a Job is finished."""
    if workload.job is None or workload.kind != "Job" or workload.job.parallelism == 0 or suspended(workload):
        return False
    return not job_wanted(workload, workload.obj.status, (), ())


def _wanted(workload: WorkloadView, pods: tuple[int, ...]) -> int:
    if workload.kind == "DaemonSet":
        return len(pods)
    if workload.job is not None and suspended(workload):
        return 0
    return stated_pods(workload)
