"""NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, NodeDeclaredFeatures and PodOS.

Source:
pkg/scheduler/framework/plugins/{nodeunschedulable,nodename,tainttoleration,nodeaffinity,nodedeclaredfeatures}.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from kubestow.models.cluster.cluster import HARD_EFFECTS, Cluster, Ints
from kubestow.models.kube.pod_spec import operating_system
from kubestow.models.kube.selectors import UNSCHEDULABLE_TAINT, Bools
from kubestow.solver.rules.base import StaticRule
from kubestow.solver.rules.node_static.near_taints import taint_text
from kubestow.solver.rules.node_static.remedies import SelectionRemedies, TolerationRemedies
from kubestow.solver.rules.node_static.words import SelectionWords, TolerationWords


class NodeUnschedulable(StaticRule):
    """A cordoned node rejects pods that do not tolerate its unschedulable taint."""

    name = "NodeUnschedulable"
    scheduler_text = "node(s) were unschedulable"
    for_good = True
    reads = ("tolerations",)
    helped_by_uncordoning = True
    drop_rank = 180
    text = "the node is cordoned"

    def alike(self, g: int) -> Hashable:
        return self.cluster.classes[g].tolerations

    def never(self, g: int) -> Bools:
        cluster = self.cluster
        tolerations = cluster.toleration_sets[cluster.classes[g].tolerations]
        if tolerations.cover(UNSCHEDULABLE_TAINT):
            return np.zeros(cluster.n_nodes, dtype=bool)
        return cluster.nodes.unschedulable

    def broken_by(self, g: int, nodes: Ints) -> Bools:
        return np.zeros(len(nodes), dtype=bool)  # a cordon concerns new pods only


class NodeName(StaticRule):
    """A pod that names its node (a static pod, represented by its mirror pod) runs only there."""

    name = "NodeName"
    scheduler_text = "node(s) didn't match the requested node name"
    for_good = True
    reads = ("node_name",)
    drop_rank = 190
    text = "the pod names another node"

    def alike(self, g: int) -> Hashable:
        return self.cluster.classes[g].node_name

    def never(self, g: int) -> Bools:
        wanted = self.cluster.classes[g].node_name
        if wanted is None:
            return np.zeros(self.cluster.n_nodes, dtype=bool)
        return np.array([name != wanted for name in self.cluster.nodes.names], dtype=bool)

    def broken_by(self, g: int, nodes: Ints) -> Bools:
        return np.zeros(len(nodes), dtype=bool)  # a running pod is on its node


class TaintToleration(TolerationWords, TolerationRemedies):
    """NoSchedule and NoExecute taints reject unless they are tolerated."""

    name = "TaintToleration"
    scheduler_text = "node(s) had untolerated taint(s)"
    for_good = True
    reads = ("tolerations",)
    of_nodes_alike = True
    drop_rank = 170
    text = "a taint is not tolerated"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._masks = [~cluster.nodes.tolerated(t, HARD_EFFECTS) for t in cluster.toleration_sets]

    def alike(self, g: int) -> Hashable:
        return self.cluster.classes[g].tolerations

    def never(self, g: int) -> Bools:
        return self._masks[self.cluster.classes[g].tolerations]

    def broken_by(self, g: int, nodes: Ints) -> Bools:
        """Return the pods with an untolerated taint other than that of a cordon."""
        mask = np.array(self.never(g)[nodes])
        tolerations = self.cluster.toleration_sets[self.cluster.classes[g].tolerations]
        for i in np.flatnonzero(mask).tolist():
            mask[i] = any(
                taint.effect in HARD_EFFECTS and taint.key != UNSCHEDULABLE_TAINT.key and not tolerations.cover(taint)
                for taint in self.cluster.nodes.taints(int(nodes[i]))
            )
        return mask

    def message(self, g: int, rejected: Bools) -> str:
        tolerations = self.cluster.toleration_sets[self.cluster.classes[g].tolerations]
        taints: dict[str, None] = {}
        for n in np.flatnonzero(rejected):
            for taint in self.cluster.nodes.taints(int(n)):
                if taint.effect in HARD_EFFECTS and not tolerations.cover(taint):
                    taints[taint_text(taint)] = None
        names = list(taints)
        return f"not tolerated: {', '.join(names[:3])}{', …' if len(names) > 3 else ''}"


class NodeAffinity(SelectionWords, SelectionRemedies):
    """nodeSelector and required node affinity."""

    name = "NodeAffinity"
    scheduler_text = "node(s) didn't match Pod's node affinity/selector"
    for_good = True
    reads = ("node_rule",)
    of_nodes_alike = True
    text = "nodeSelector or required node affinity does not match"

    def alike(self, g: int) -> Hashable:
        return self.cluster.classes[g].node_rule

    def never(self, g: int) -> Bools:
        return ~self.cluster.node_sets[self.cluster.classes[g].node_rule]


class NodeDeclaredFeatures(StaticRule):
    """A pod that needs a feature of the kubelet goes only to nodes that declare it."""

    name = "NodeDeclaredFeatures"
    scheduler_text = "node(s) didn't match Pod's required features"
    for_good = True
    reads = ("features",)
    of_nodes_alike = True
    drop_rank = 130

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._open = np.zeros(cluster.n_nodes, dtype=bool)
        self._masks = {wanted: self._lacking(wanted) for wanted in {cls.features for cls in cluster.classes} if wanted}

    def _lacking(self, wanted: tuple[str, ...]) -> Bools:
        statuses = [node.status for node in self.cluster.snapshot.nodes]
        return np.array([not {*wanted} <= {*((s.declaredFeatures if s else None) or ())} for s in statuses], dtype=bool)

    def alike(self, g: int) -> Hashable:
        return self.cluster.classes[g].features

    def never(self, g: int) -> Bools:
        return self._masks.get(self.cluster.classes[g].features, self._open)

    def message(self, g: int, rejected: Bools) -> str:
        return f"not declared by the kubelet: {', '.join(self.cluster.classes[g].features)}"


class PodOS(StaticRule):
    """A pod that names its operating system runs only on such nodes. kube-scheduler ignores the field; the kubelet refuses the pod.

    Source: pkg/kubelet/lifecycle/predicate.go, rejectPodAdmissionBasedOnOSField.
    """

    name = "PodOS"
    for_good = True
    reads = ("os",)
    of_nodes_alike = True
    drop_rank = 140

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._open = np.zeros(cluster.n_nodes, dtype=bool)
        systems = [operating_system(node) for node in cluster.snapshot.nodes]
        wanted = {cls.os for cls in cluster.classes if cls.os}
        self._masks = {os: np.array([own not in (None, os) for own in systems], dtype=bool) for os in wanted}

    def alike(self, g: int) -> Hashable:
        return self.cluster.classes[g].os

    def never(self, g: int) -> Bools:
        return self._masks.get(self.cluster.classes[g].os, self._open)

    def message(self, g: int, rejected: Bools) -> str:
        nodes = self.cluster.snapshot.nodes
        systems = sorted({operating_system(nodes[n]) or "" for n in np.flatnonzero(rejected).tolist()})
        return f"the kubelet refuses: spec.os is {self.cluster.classes[g].os}, the node runs {', '.join(systems)}"
