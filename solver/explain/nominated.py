"""The second filter pass for nodes with nominated pods: those of equal or higher priority count as if they were bound.

Source: pkg/scheduler/framework/runtime/framework.go, RunFilterPluginsWithNominatedPods.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.policy import Policy
from kubestow.models.kube.objects import is_waiting
from kubestow.models.kube.pod_spec import required_terms
from kubestow.models.kube.selectors import canonical, label_key_requirements
from kubestow.models.snapshot.scope import Scope
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver import rules
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.inter_pod_affinity.rule import InterPodAffinity
from kubestow.solver.rules.node_ports.rule import NodePorts
from kubestow.solver.rules.node_resources_fit.rule import NodeResourcesFit
from kubestow.solver.rules.pod_topology_spread.rule import PodTopologySpread
from kubestow.solver.rules.volumes.rule import NodeVolumeLimits, VolumeRestrictions

#: Rules whose state nominated pods change. Devices and unbound volumes have no owner before a pod is bound.
_AFFECTED_RULES: Final[tuple[type[Rule], ...]] = (
    NodePorts, NodeResourcesFit, VolumeRestrictions, NodeVolumeLimits, PodTopologySpread, InterPodAffinity,
)  # fmt: skip


class Nominated:
    """The pods nominated to nodes, against the judged pods (the pending ones of ``scope``)."""

    def __init__(self, snapshot: Snapshot, scope: Scope, daemon_namespaces: tuple[str, ...], policy: Policy) -> None:
        self._pods = snapshot.pods
        names = {node.metadata.name: n for n, node in enumerate(snapshot.nodes)}
        self._at: dict[int, list[int]] = {}
        for i, pod in enumerate(snapshot.pods):
            if is_waiting(pod) and not pod.spec.schedulingGates and pod.status is not None and pod.status.nominatedNodeName in names:
                self._at.setdefault(names[pod.status.nominatedNodeName], []).append(i)
        if not self._at:
            return
        guests = {i for at in self._at.values() for i in at}
        both = replace(scope, pending=sorted({*scope.pending, *guests}))
        self._cluster = compile_cluster(snapshot, both, daemon_namespaces=daemon_namespaces, policy=policy)
        self._rules = [rule for rule in rules.build(self._cluster) if isinstance(rule, _AFFECTED_RULES)]
        self._class = {i: g for g, cls in enumerate(self._cluster.classes) for i in cls.pods}
        self._known: dict[tuple[int, int, tuple[int, ...]], list[tuple[str, str]]] = {}

    def rejects(self, i: int) -> Iterator[tuple[int, str, str]]:
        """Yield the nodes on which a rule rejects pod i with the pods nominated there, each with rule and message."""
        rank = self._pods[i].spec.priority or 0
        for n, listed in self._at.items():
            guests = tuple(j for j in listed if j != i and (self._pods[j].spec.priority or 0) >= rank)
            if guests:
                for name, message in self._rejections(self._class[i], n, guests):
                    yield n, name, message

    def _rejections(self, g: int, n: int, guests: tuple[int, ...]) -> list[tuple[str, str]]:
        rejections = self._known.get((g, n, guests))
        if rejections is not None:
            return rejections
        rejections = self._known[g, n, guests] = []
        here = np.arange(self._cluster.n_nodes) == n
        for rule in self._rules:
            if isinstance(rule, InterPodAffinity) and not self._has_affinity_rules(g):
                continue
            for j in guests:
                rule.place(self._class[j], n)
            if rule.rejects(g)[n] or (isinstance(rule, PodTopologySpread) and self._crowded(g, n, guests)):
                rejections.append((rule.name, f"{rule.message(g, here)}, with the pods nominated to the node"))
            for j in reversed(guests):
                rule.remove(self._class[j], n)
        return rejections

    def _has_affinity_rules(self, g: int) -> bool:
        """Return True if InterPodAffinity considers pods of the class. It skips pods without terms that no bound pod repels."""
        cluster, pod = self._cluster, self._cluster.classes[g].pod
        if required_terms(pod, "podAffinity") or required_terms(pod, "podAntiAffinity"):
            return True
        terms = (fixed for fixed in cluster.fixed_anti if cluster.matches(fixed.term.matcher)[g])
        return any((cluster.domains(fixed.term.key)[0][fixed.nodes] >= 0).any() for fixed in terms)

    def _crowded(self, g: int, n: int, guests: tuple[int, ...]) -> bool:
        """Return True if nominated pods break a spread constraint with an empty selector.

        Such a selector matches no bound pod, but it matches a pod that is added later
        (podtopologyspread/filtering.go, updateWithPod).
        """
        cluster, cls = self._cluster, self._cluster.classes[g]
        labels = cls.pod.metadata.labels or {}
        everything = {
            c.topologyKey for c in cls.pod.spec.topologySpreadConstraints or ()
            if c.whenUnsatisfiable == "DoNotSchedule"
            and canonical(c.labelSelector, label_key_requirements(labels, c.matchLabelKeys)) == ()
        }  # fmt: skip
        count = sum(self._pods[j].metadata.namespace == cls.pod.metadata.namespace for j in guests)
        for spread in cls.spread:
            eligible = cluster.node_sets[spread.eligible]
            if spread.key in everything and eligible[n]:
                domains = len(np.unique(cluster.domains(spread.key)[0][eligible]))
                least = count if domains == 1 and spread.min_domains <= 1 else 0
                if count + 1 - least > spread.max_skew:
                    return True
        return False
