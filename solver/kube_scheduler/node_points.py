"""The points of kube-scheduler for the nodes of a pod: every plugin's, normalised and weighted.

Source: https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/scheduler/framework/runtime/framework.go, RunScorePlugins; the
modules of the plugins are named at each function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints, Pull, SoftSpread, domain_sum
from kubestow.models.cluster.templates import GANG_LABEL
from kubestow.models.kube import objects
from kubestow.models.kube.selectors import Bools
from kubestow.models.scheduler.profiles import Profile
from kubestow.solver.kube_scheduler.resource_points import MAX_POINTS, AllocationPoints, BalancePoints
from kubestow.solver.objective.families.node_affinity import NodeAffinity
from kubestow.solver.objective.families.taints import TAINT_COST, Taints
from kubestow.solver.rules.base import on_nodes

HOSTNAME: Final = "kubernetes.io/hostname"


class NodePoints:
    """Points of one more pod for each node, while pods are placed one after the other.

    Args:
        cluster: An instance compiled under :meth:`Profile.policy`.
        profile: The profile of all its pending pods.
    """

    def __init__(self, cluster: Cluster, profile: Profile) -> None:
        self.cluster, self.profile = cluster, profile
        self.placed = np.zeros((cluster.n_classes, cluster.n_nodes), dtype=np.int64)
        self._allocation = AllocationPoints(cluster, profile.strategy)
        self._balance = BalancePoints(cluster, profile.balanced)
        self._soft_taints, self._preferred = Taints(cluster, ()), NodeAffinity(cluster, ())
        self._added = [(cluster.nodes.selector(objects.NodeSelector([term.preference])), term.weight) for term in profile.added_terms]

    def place(self, g: int, n: int, k: int = 1) -> None:
        """Add k pods of class g on node n."""
        self.placed[g, n] += k
        self._allocation.use.place(g, n, k)
        self._balance.use.place(g, n, k)

    def of(self, g: int, feasible: Bools) -> dict[str, Ints]:
        """Return the weighted points of one more pod of class g by plugin, int64[N] each, in the order of kube-scheduler.

        Args:
            feasible: bool[N], the nodes that the filters accept; points of other nodes mean nothing.

        A plugin that skips the pod is left out.
        """
        found = {
            "TaintToleration": self._taints(g, feasible),
            "NodeAffinity": self._node_affinity(g, feasible),
            "NodeResourcesFit": self._allocation.points(g),
            "PodTopologySpread": self._spread(g, feasible),
            "InterPodAffinity": self._pod_affinity(g, feasible),
            "DynamicResources": np.zeros(self.cluster.n_nodes, dtype=np.int64),
            "NodeResourcesBalancedAllocation": self._balance.points(g),
            "ImageLocality": self._images(g),
        }
        weights = self.profile.weights
        return {name: points * weights[name] for name, points in found.items() if points is not None and name in weights}

    def _taints(self, g: int, feasible: Bools) -> Ints:
        """Return points for few PreferNoSchedule taints that the pod does not tolerate (tainttoleration/taint_toleration.go)."""
        none = self._soft_taints.key(g) is None
        count = self.cluster.none(self.cluster.n_nodes) if none else self._soft_taints.row(g) // -TAINT_COST
        most = int(count[feasible].max(initial=0))
        return MAX_POINTS - (MAX_POINTS * count // most if most else count)

    def _node_affinity(self, g: int, feasible: Bools) -> Ints | None:
        """Return the weights of the preferred node affinity terms that a node matches (nodeaffinity/node_affinity.go)."""
        cls = self.cluster.classes[g]
        affinity = cls.pod.spec.affinity.nodeAffinity if cls.pod.spec.affinity is not None else None
        if not self._added and not (affinity is not None and affinity.preferredDuringSchedulingIgnoredDuringExecution):
            return None
        raw = self._preferred.row(g)
        for mask, weight in self._added:
            raw += weight * mask
        most = int(raw[feasible].max(initial=0))
        return MAX_POINTS * raw // most if most else raw

    def _images(self, g: int) -> Ints:
        """Return points for images that a node has (imagelocality/image_locality.go)."""
        row = dict(self.cluster.classes[g].scores).get("imageLocality")
        zeros = np.zeros(self.cluster.n_nodes, dtype=np.int64)
        return zeros if row is None else self.cluster.node_scores["imageLocality"][row]

    # --- pods near each other ---------------------------------------------------------------------------------------------------

    def _matched(self, matcher: int, *, settled: bool = False) -> Ints:
        """Return int64[N], the pods on each node that a matcher matches. ``settled`` excludes terminating pods."""
        own = self.cluster.matching(matcher)
        fixed = self.cluster.fixed_count(matcher, settled=settled)
        return fixed + self.placed[own].sum(axis=0) if len(own) else fixed

    def _spread(self, g: int, feasible: Bools) -> Ints | None:
        """Return points for few matching pods in a node's domains (podtopologyspread/scoring.go)."""
        cluster, own = self.cluster, self.cluster.classes[g].pod.spec.topologySpreadConstraints
        constraints = self._constraints(g)
        if not constraints:
            return None
        scored = feasible.copy()
        for key in [key for key, _, _ in constraints] if own or not self.profile.is_spread_by_system else ():
            scored &= cluster.domains(key)[0] >= 0
        raw = np.zeros(cluster.n_nodes)
        for key, max_skew, spread in constraints:
            codes, size = cluster.domains(key)
            matched = self._matched(spread.matcher, settled=True) if spread is not None else cluster.none(cluster.n_nodes)
            if key == HOSTNAME:
                count, domains = matched, int(scored.sum())
            else:
                inside = np.where(cluster.node_sets[spread.eligible], matched, 0) if spread is not None else matched
                count = on_nodes(domain_sum(codes, size, inside), codes)
                domains = len(np.unique(codes[scored]))  # a node without the key counts as one more domain
            raw = raw + np.where(codes >= 0, count * np.log(float(domains + 2)) + float(max_skew - 1), 0.0)
        points = np.floor(raw + 0.5).astype(np.int64)
        if not scored.any():
            return np.zeros(cluster.n_nodes, dtype=np.int64)
        least, most = int(points[scored].min()), int(points[scored].max())
        normal = MAX_POINTS * (most + least - points) // most if most else np.full(cluster.n_nodes, MAX_POINTS)
        return np.where(scored, normal, 0)

    def _constraints(self, g: int) -> list[tuple[str, int, SoftSpread | None]]:
        """Return the ScheduleAnyway constraints of a class: topology key, maxSkew, and the constraint, None if it counts no pods."""
        cls = self.cluster.classes[g]
        if not cls.pod.spec.topologySpreadConstraints:
            return [(spread.key, spread.max_skew, spread) for spread in cls.soft_spread]
        counting = {spread.key: spread for spread in cls.soft_spread}  # one for each key, which the API server sees to
        soft = [each for each in cls.pod.spec.topologySpreadConstraints if each.whenUnsatisfiable == "ScheduleAnyway"]
        return [(each.topologyKey, each.maxSkew, counting.get(each.topologyKey)) for each in soft]

    def _pod_affinity(self, g: int, feasible: Bools) -> Ints | None:
        """Return the weights of the terms of the pod and of other pods that match in a node's domains (interpodaffinity/scoring.go)."""
        cls, cluster = self.cluster.classes[g], self.cluster
        own = [pull for pull in cls.pulls if pull.family == "podAffinity" and not self._is_of_gang(pull)]
        if self.profile.ignores_terms_of_others and not own:
            return None
        raw = np.zeros(cluster.n_nodes, dtype=np.int64)
        matches = False
        for pull in own:
            matches |= self._pull(raw, pull, self._matched(pull.matcher))
        for pull, holders in self._terms_of_others():
            if not self._is_of_gang(pull) and cluster.matchers.hits(pull.matcher)[cls.profile]:
                matches |= self._pull(raw, pull, holders)
        if not matches:
            return None
        least, most = int(raw[feasible].min(initial=2**62)), int(raw[feasible].max(initial=-(2**62)))
        if most <= least:
            return np.zeros(cluster.n_nodes, dtype=np.int64)
        shares: Ints = (float(MAX_POINTS) * ((raw - least).astype(float) / float(most - least))).astype(np.int64)
        return shares

    def _pull(self, raw: Ints, pull: Pull, count: Ints) -> bool:
        """Add the points of a term for pods counted on each node. Return True if one is on a node with the topology key."""
        codes, size = self.cluster.domains(pull.key)
        there = domain_sum(codes, size, count)
        raw += pull.weight * on_nodes(there, codes)
        return bool(there.any())

    def _is_of_gang(self, pull: Pull) -> bool:
        """Return True for the preferred topology of a gang, which compiles to a term that no pod has."""
        return any(requirement.key == GANG_LABEL for _, selector in self.cluster.matchers.parts(pull.matcher) for requirement in selector)

    def _terms_of_others(self) -> Sequence[tuple[Pull, Ints]]:
        """Return the weighted terms of the pods on nodes, with the number of pods that carry each on every node, int64[N]."""
        found = dict(self.cluster.fixed_pulls)
        for g in np.flatnonzero(self.placed.any(axis=1)).tolist():
            for pull in self.cluster.classes[g].pulls:
                found[pull] = found[pull] + self.placed[g] if pull in found else self.placed[g]
        return list(found.items())
