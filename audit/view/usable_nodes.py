"""On which nodes the pods of each workload could be, whatever else runs there, and how grave it is where they cannot."""

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
from kubestow.models.kube.selectors import Bools
from kubestow.models.snapshot.scope import Scope
from kubestow.models.workloads.replicas import job
from kubestow.solver.rules.base import PLENTY
from kubestow.solver.rules.node_static import NodeUnschedulable, TaintToleration

#: Where only hard rules are asked about.
INDIFFERENT: Final = Multipliers(**dict.fromkeys(Multipliers.__struct_fields__, 0))
_QUIET: Final = Policy(multipliers=INDIFFERENT)


@dataclass(frozen=True)
class Place:
    """A subject's nodes, bool[N] each: those that its node rules select; those that refuse it by a taint; those that are cordoned, to it;
    those that are too small for it even when empty. ``g``: its class."""

    g: int
    selected: Bools
    tainted: Bools
    cordoned: Bools
    small: Bools

    @property
    def usable(self) -> Bools:
        """bool[N]: those that could take a pod of it today."""
        return self.selected & ~self.tainted & ~self.cordoned & ~self.small


class UsableNodes:
    """Subjects (by default all) against nodes. ``cluster``: compiled for one pod of each of the subjects, as the template has it, beside
    the pods ``fixed`` (indices), those that matter to what is asked of it. Annotations are not read: they decide nothing here, and what
    cannot be read is another check's."""

    def __init__(self, view: ClusterView, subjects: list[Subject] | None = None, fixed: list[int] | None = None) -> None:
        subjects = view.subjects if subjects is None else subjects
        whole = view.snapshot.copy()
        whole.node_topologies = {}  # NUMA zones are another check's, as are annotations that cannot be read
        first = len(whole.pods)
        whole.pods = [*whole.pods, *(plain(subject.pod) for subject in subjects)]
        scope = Scope(fixed=fixed or [], pending=list(range(first, len(whole.pods))))
        self.cluster: Cluster = compile_cluster(whole, scope, daemon_namespaces=view.exempt, policy=_QUIET)
        self._class = {subjects[i - first].name: g for g, cls in enumerate(self.cluster.classes) for i in cls.pods}
        self._taints, self._cordons = TaintToleration(self.cluster), NodeUnschedulable(self.cluster)

    def place(self, subject: Subject) -> Place:
        cluster, g = self.cluster, self._class[subject.name]
        return Place(g, cluster.node_sets[cluster.classes[g].node_rule], self._taints.never(g), self._cordons.never(g), self.empty(g) < 1)

    def transient(self, subject: Subject) -> Bools:
        """bool[N]: nodes that refuse a subject by taints that go with their state only, if they refuse it by any."""
        cluster, table = self.cluster, self.cluster.nodes
        own = cluster.toleration_sets[cluster.classes[self._class[subject.name]].tolerations]
        kept = [
            any(t.effect in HARD_EFFECTS and not is_transient(t) and not own.cover(t) for t in table.taints(n)) for n in range(table.size)
        ]
        return ~np.array(kept, dtype=bool)

    def rules(self, subject: Subject) -> PodClass:
        return self.cluster.classes[self._class[subject.name]]

    def empty(self, g: int) -> Ints:
        """int64[N]: how many pods of a class each node would take if nothing else ran there."""
        cluster = self.cluster
        room = np.minimum(self._slots, PLENTY)
        for r in np.flatnonzero(cluster.demand[g]):
            room = np.minimum(room, cluster.allocatable[:, r] // cluster.demand[g, r])
        return np.maximum(room, 0)

    @cached_property
    def _slots(self) -> Ints:
        """int64[N]: the pods that each node takes at most."""
        cluster = self.cluster
        held = np.zeros(cluster.n_nodes, dtype=np.int64)
        index = {name: n for n, name in enumerate(cluster.nodes.names)}
        np.add.at(held, [index[cluster.snapshot.pods[i].spec.nodeName or ""] for i in cluster.scope.fixed], 1)
        return cluster.slots + held


def plain(pod: Pod) -> Pod:
    """Return a pod without annotations: hints and gangs decide nothing of hard rules, and those that cannot be read are another check's."""
    change = msgspec.structs.replace
    return change(pod, metadata=change(pod.metadata, annotations=None)) if pod.metadata.annotations else pod


def running(view: ClusterView, subject: Subject) -> int:
    """Return how many of a subject's pods are on nodes of the snapshot."""
    return len(view.homes(subject.pods))


def wanted(subject: Subject) -> int:
    """Pods that a subject is to have at a time; of a Job what is left of it."""
    workload = subject.workload
    if workload is not None and workload.kind == "Job":
        return job(workload, workload.name, workload.obj.status, (), ()).wanted
    return subject.wanted


def grave(view: ClusterView, subject: Subject) -> Severity:
    """Return how grave it is that no pod of a subject can be placed: an error where it lacks some, a warning where all run (only none could
    come back; a CronJob's next run), worth knowing where it wants none."""
    asked = wanted(subject)
    if subject.kind == "CronJob" and asked and not subject.pods:
        return "warning"
    return "info" if not asked else "warning" if running(view, subject) >= asked else "error"
