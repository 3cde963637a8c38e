"""Nodes that the pods of each workload could use if nothing else ran there, and the severity if there are none."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import msgspec
import numpy as np

from kubestow.audit.view.transient_taints import is_transient
from kubestow.audit.view.view import ClusterView, Subject
from kubestow.models.cluster.cluster import HARD_EFFECTS, Cluster, Ints, PodClass
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.findings.audit import Severity
from kubestow.models.documents.policy import Multipliers, Policy
from kubestow.models.kube.objects import Pod
from kubestow.models.kube.selectors import UNSCHEDULABLE_TAINT, Bools
from kubestow.models.snapshot.scope import Scope
from kubestow.models.workloads.replicas import job
from kubestow.solver.rules.base import UNLIMITED_PODS

#: Weights for questions that involve hard rules only.
INDIFFERENT: Final = Multipliers(**dict.fromkeys(Multipliers.__struct_fields__, 0))
_QUIET: Final = Policy(multipliers=INDIFFERENT)


@dataclass(frozen=True)
class SubjectNodes:
    """The nodes of a subject.

    Attributes:
        g: Index of the subject's pod class.
        selected: bool[N]: nodes that its node rules select.
        tainted: bool[N]: nodes that repel it by a taint.
        cordoned: bool[N]: nodes that are cordoned for it.
        small: bool[N]: nodes that are too small for it even when empty.
    """

    g: int
    selected: Bools
    tainted: Bools
    cordoned: Bools
    small: Bools

    @property
    def usable(self) -> Bools:
        """bool[N]: the nodes that could take one of its pods today."""
        return self.selected & ~self.tainted & ~self.cordoned & ~self.small


class UsableNodes:
    """Eligibility of nodes for subjects (by default all).

    Annotations are ignored: they decide no hard rule, and another check reports invalid ones.

    Attributes:
        cluster: The compiled cluster with one pod per subject, made from its template, and the running pods
            ``fixed`` (indices).
    """

    def __init__(self, view: ClusterView, subjects: list[Subject] | None = None, fixed: list[int] | None = None) -> None:
        subjects = view.subjects if subjects is None else subjects
        whole = view.snapshot.copy()
        whole.node_topologies = {}  # another check covers NUMA zones and invalid annotations
        first = len(whole.pods)
        whole.pods = [*whole.pods, *(plain(subject.pod) for subject in subjects)]
        scope = Scope(fixed=fixed or [], pending=list(range(first, len(whole.pods))))
        self.cluster: Cluster = compile_cluster(whole, scope, daemon_namespaces=view.exempt, policy=_QUIET)
        self._class = {subjects[i - first].name: g for g, cls in enumerate(self.cluster.classes) for i in cls.pods}

    def place(self, subject: Subject) -> SubjectNodes:
        cluster, g = self.cluster, self._class[subject.name]
        tolerations = cluster.toleration_sets[cluster.classes[g].tolerations]
        tainted = ~cluster.nodes.tolerated(tolerations, HARD_EFFECTS)
        cordoned = cluster.nodes.unschedulable & (not tolerations.cover(UNSCHEDULABLE_TAINT))
        return SubjectNodes(g, cluster.node_sets[cluster.classes[g].node_rule], tainted, cordoned, self.empty(g) < 1)

    def transient(self, subject: Subject) -> Bools:
        """Return bool[N]: nodes that repel the subject by transient taints only, or by none."""
        cluster, table = self.cluster, self.cluster.nodes
        own = cluster.toleration_sets[cluster.classes[self._class[subject.name]].tolerations]
        kept = [
            any(t.effect in HARD_EFFECTS and not is_transient(t) and not own.cover(t) for t in table.taints(n)) for n in range(table.size)
        ]
        return ~np.array(kept, dtype=bool)

    def rules(self, subject: Subject) -> PodClass:
        return self.cluster.classes[self._class[subject.name]]

    def empty(self, g: int) -> Ints:
        """Return int64[N]: the number of pods of a class that each node could take if nothing else ran there."""
        cluster = self.cluster
        room = np.minimum(self._slots, UNLIMITED_PODS)
        for r in np.flatnonzero(cluster.demand[g]):
            room = np.minimum(room, cluster.allocatable[:, r] // cluster.demand[g, r])
        return np.maximum(room, 0)

    @cached_property
    def _slots(self) -> Ints:
        """int64[N]: the maximum number of pods per node."""
        cluster = self.cluster
        fixed_counts = np.zeros(cluster.n_nodes, dtype=np.int64)
        index = {name: n for n, name in enumerate(cluster.nodes.names)}
        np.add.at(fixed_counts, [index[cluster.snapshot.pods[i].spec.nodeName or ""] for i in cluster.scope.fixed], 1)
        return cluster.slots + fixed_counts


def plain(pod: Pod) -> Pod:
    """Return a pod without annotations. Hints and gangs affect no hard rule, and another check reports invalid annotations."""
    change = msgspec.structs.replace
    return change(pod, metadata=change(pod.metadata, annotations=None)) if pod.metadata.annotations else pod


def running(view: ClusterView, subject: Subject) -> int:
    """Return the number of a subject's pods that run on nodes of the snapshot."""
    return len(view.homes(subject.pods))


def wanted(subject: Subject) -> int:
    """Return the number of pods that a subject should have at a time. For a Job, count only the remaining completions."""
    workload = subject.workload
    if workload is not None and workload.kind == "Job":
        return job(workload, workload.name, workload.obj.status, (), ()).wanted
    return subject.wanted


def grave(view: ClusterView, subject: Subject) -> Severity:
    """Return the severity for a subject whose pods fit no node.

    Missing pods are an error. If all pods run, or it is a CronJob's next run, it is a warning: a pod could not come
    back. A workload without wanted pods is an info.
    """
    desired = wanted(subject)
    if subject.kind == "CronJob" and desired and not subject.pods:
        return "warning"
    return "info" if not desired else "warning" if running(view, subject) >= desired else "error"
