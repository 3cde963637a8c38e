"""Report on preferences: points by family and by workload, and unmet preferences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints, PodClass, Pull
from kubestow.models.documents import placement as doc
from kubestow.models.kube.objects import Pod, controller_of, pod_key
from kubestow.solver.numa.zone_pools import closeness
from kubestow.solver.objective.container_affinity import AssignedZones
from kubestow.solver.objective.preferences import (
    CONTAINER_AFFINITY,
    FAMILIES,
    IMAGE_LOCALITY,
    NODE_AFFINITY,
    POD_AFFINITY,
    REQUIRED_AFFINITY,
    SKEW_COST,
    TAINTS,
    TOPOLOGY_SPREAD,
    Objective,
)
from kubestow.solver.objective.sparse_placement import SparsePlacement

MAX_LISTED = 50  #: Unmet preferences listed in a document.
#: Pods on each node, per class and workload.
_Pods = list[dict[str, dict[int, int]]]


def workload(pod: Pod) -> str:
    """Return ``Kind namespace/name`` of the controller, or of the pod itself."""
    owner = controller_of(pod)
    if owner is None:
        return f"Pod {pod_key(pod)}"
    return f"{owner.kind} {pod.metadata.namespace or 'default'}/{owner.name}"


@dataclass(frozen=True)
class _Reported:
    """The placement reported on.

    Attributes:
        counts: int64[G, N].
        sequence: Bind order.
        zones: NUMA zones.
        placed: The same placement, sparse.
        excesses: Pods above maxSkew of all tallies.
        pods: Pods by class and workload.
    """

    counts: Ints
    sequence: Sequence[tuple[int, int, int]]
    zones: AssignedZones
    placed: SparsePlacement
    excesses: list[int]
    pods: _Pods


def report(objective: Objective, counts: Ints, sequence: Sequence[tuple[int, int, int]], zones: AssignedZones) -> doc.Preferences:
    """Return the preference part of a result; ``counts``: int64[G, N]."""
    placed = SparsePlacement(counts)
    outcome = _Reported(counts, sequence, zones, placed, objective.excesses(placed), _pods_of(objective.cluster, sequence))
    families = objective.families(placed, excesses=outcome.excesses)
    families[CONTAINER_AFFINITY] = zones.points
    best = _best(objective, counts)
    weights = objective.multipliers
    listed = [
        doc.FamilyResult(family, families[family], max(best[family], families[family]), weights[family])
        for family in FAMILIES
        if weights[family] and (families[family] or best[family] or _present(objective, family))
    ]
    unmet = sorted(_Unmet(objective, outcome).entries, key=lambda u: (-u.lost, u.workload, u.preference))
    lost: dict[str, int] = {}
    for entry in unmet:
        lost[entry.workload] = lost.get(entry.workload, 0) + entry.lost
    gained = _gained(objective, outcome)
    names = sorted(gained.keys() | lost.keys(), key=lambda name: (-lost.get(name, 0), name))
    rows = [doc.WorkloadResult(name, gained.get(name, 0), lost.get(name, 0)) for name in names if gained.get(name) or lost.get(name)]
    return doc.Preferences(listed, rows, unmet[:MAX_LISTED])


def _present(objective: Objective, family: str) -> bool:
    if family == TAINTS:
        return objective.taints
    if family == NODE_AFFINITY:
        return any(cls.prefers for cls in objective.cluster.classes)
    if family == IMAGE_LOCALITY:
        return any(cls.images is not None for cls in objective.cluster.classes)
    if family == TOPOLOGY_SPREAD:
        return bool(objective.tallies)
    if family == CONTAINER_AFFINITY:
        return bool(objective.containers.involved)
    return any(term.family == family for term in objective.terms)


def _best(objective: Objective, counts: Ints) -> dict[str, int]:
    """Return, per family, an upper bound on the points of the placed pods: all pulls met, only unavoidable repulsion."""
    cluster = objective.cluster
    placed = counts.sum(axis=1)
    best = dict.fromkeys(FAMILIES, 0)
    for g in np.flatnonzero(placed).tolist():
        for family in objective.static_families(g):
            row = objective.static(g, family)
            best[family] += int(placed[g]) * int(row.max(initial=0) if row.size else 0)
    for t in objective.pairs:
        term = objective.terms[t]
        matched = int(placed[sorted(term.matches)].sum())
        domains = max(1, term.size)
        for g, weight in term.own.items():
            pods = int(placed[g])
            if weight > 0:
                best[term.family] += weight * pods * (matched - int(g in term.matches))
            elif g in term.matches and cluster.nodes.with_keys([term.key]).all():
                each, more = divmod(pods, domains)
                best[term.family] += weight * (each * (each - 1) * (domains - more) + (each + 1) * each * more)
    containers = objective.containers
    levels = containers.levels
    for g in containers.involved:
        pods, cls = int(placed[g]), containers.class_of(g)
        best[CONTAINER_AFFINITY] += pods * sum(max(w * containers.max_points, w * levels.sameNode) for _, _, w in cls.inner)
        for own in cls.entries:
            for predicate, weight in own:
                satisfying = sum(int(placed[h]) for h, _ in containers.satisfying(predicate, containers.involved))
                satisfying += int(np.max(cluster.fixed_containers.satisfying.get(predicate, np.zeros(1))))
                best[CONTAINER_AFFINITY] += pods * satisfying * max(weight * containers.max_points, weight * levels.sameNode, 0)
        for predicate in {p for own in cls.hits for p in own}:
            owned = cluster.fixed_containers.owning.get(predicate)
            if owned is not None:
                hits = sum(predicate in own for own in cls.hits)
                highest = max(int(w) * level for w in (owned.max(), owned.min()) for level in (containers.max_points, levels.sameNode))
                best[CONTAINER_AFFINITY] += pods * hits * max(0, highest)
    return best


def _gained(objective: Objective, outcome: _Reported) -> dict[str, int]:
    """Return the weighted points by workload.

    Pairs count for the owner of the preference, or for the pending pod if a fixed one owns it. Topology spread
    constraints concern many pods and only count as ``lost``."""
    placed, pairs = outcome.placed, set(objective.pairs)
    gained: dict[str, int] = {}
    for g in placed.classes:
        nodes, _ = placed.of(g)
        row = objective.node_points(g)[nodes]
        for t in objective.owned[g]:
            if t in pairs:
                term = objective.terms[t]
                met = placed.per_domain(sorted(term.matches), term.codes, term.size) - int(g in term.matches)
                row = row + objective.multipliers[term.family] * term.own[g] * np.append(met, 0)[term.codes[nodes]]
        points = dict(zip(nodes.tolist(), row.tolist(), strict=True))
        for name, where in outcome.pods[g].items():
            gained[name] = gained.get(name, 0) + sum(k * points[n] for n, k in where.items())
    if objective.containers.involved:
        _add_container_shares(objective, outcome.sequence, outcome.zones, gained)
    return gained


def _add_container_shares(
    objective: Objective, sequence: Sequence[tuple[int, int, int]], zones: AssignedZones, gained: dict[str, int]
) -> None:
    """Add the points of container affinity to each pod's workload."""
    cluster, shared = objective.cluster, _container_shares(objective, sequence, zones)
    dealt, at = [0] * cluster.n_classes, dict.fromkeys(shared, 0)
    for g, n, k in sequence:
        for i in cluster.classes[g].pods[dealt[g] : dealt[g] + k] if (g, n) in shared else ():
            name = workload(cluster.snapshot.pods[i])
            gained[name] = gained.get(name, 0) + shared[g, n][at[g, n]]
            at[g, n] += 1
        dealt[g] += k


def _pods_of(cluster: Cluster, sequence: Sequence[tuple[int, int, int]]) -> _Pods:
    """Return the pods on each node, per class and workload."""
    found: _Pods = [{} for _ in cluster.classes]
    names: dict[tuple[str | None, int], str] = {}  # by owner references, which pods of a controller share
    dealt = [0] * cluster.n_classes
    for g, n, k in sequence:
        for i in cluster.classes[g].pods[dealt[g] : dealt[g] + k]:
            pod = cluster.snapshot.pods[i]
            key = pod.metadata.namespace, id(pod.metadata.ownerReferences)
            name = names.get(key)
            if name is None:
                name = workload(pod)
                if controller_of(pod) is not None:  # other pods are named individually
                    names[key] = name
            nodes = found[g].setdefault(name, {})
            nodes[n] = nodes.get(n, 0) + 1
        dealt[g] += k
    return found


def _container_shares(
    objective: Objective, sequence: Sequence[tuple[int, int, int]], zones: AssignedZones
) -> dict[tuple[int, int], list[int]]:
    """Return the weighted container points of each pod, per (class, node) in bind order."""
    containers = objective.containers
    per_node: dict[int, list[int]] = {}
    for g, n, k in sequence:
        if g in containers.involved:
            per_node.setdefault(n, []).extend([g] * k)
    shares: dict[tuple[int, int], list[int]] = {}
    for n, pods in per_node.items():
        next_pod: dict[int, int] = {}
        listed = []
        for g in pods:
            known = zones.pools.get((g, n))
            index = next_pod.get(g, 0)
            next_pod[g] = index + 1
            listed.append((g, known[index] if known is not None else (None,) * len(containers.class_of(g).requests)))
        for g, value in zip(pods, containers.per_pod(n, listed), strict=True):
            shares.setdefault((g, n), []).append(value * objective.multipliers[CONTAINER_AFFINITY])
    return shares


class _Unmet:
    """Collector of the points that each workload lost, with one entry per preference."""

    def __init__(self, objective: Objective, outcome: _Reported) -> None:
        self.objective, self.counts = objective, outcome.counts
        self._book: dict[tuple[str, str, str], tuple[int, int]] = {}
        cluster = objective.cluster
        self._pods, self._placed, self._excesses = outcome.pods, outcome.placed, outcome.excesses
        self._total = self.counts.sum(axis=1)
        for g in self._placed.classes:
            self._nodes(cluster, g, cluster.classes[g])
            self._pairs(cluster, g, cluster.classes[g])
        self._spread(cluster)
        self._containers(cluster, outcome.zones)

    @property
    def entries(self) -> list[doc.Unmet]:
        return [doc.Unmet(owner, family, text, pods, lost) for (owner, family, text), (pods, lost) in self._book.items()]

    def _enter(self, owner: str, family: str, text: str, pods: int, lost: int) -> None:
        lost *= self.objective.multipliers[family]
        if lost > 0:
            before = self._book.get((owner, family, text), (0, 0))
            self._book[owner, family, text] = (before[0] + pods, before[1] + lost)

    def _add(self, g: int, family: str, text: str, lost: Ints) -> None:
        """Share out the raw points that the class's pods lost on each of their nodes (``lost``), by number of pods."""
        if not lost.any():
            return
        nodes, here = self._placed.of(g)
        remaining = lost.copy()
        for owner, pods in self._pods[g].items():
            own = np.array([pods.get(n, 0) for n in nodes.tolist()], dtype=np.int64)
            share = lost * own // here
            remaining -= share
            self._enter(owner, family, text, int(own[lost > 0].sum()), int(share.sum()))
        if remaining.any() and self._pods[g]:
            self._enter(next(iter(self._pods[g])), family, text, 0, int(remaining.sum()))

    def _nodes(self, cluster: Cluster, g: int, cls: PodClass) -> None:
        nodes, pods = self._placed.of(g)
        for chosen, weight in cls.prefers:
            missed = ~cluster.node_sets[chosen][nodes]
            self._add(g, NODE_AFFINITY, f"preferred node affinity of weight {weight}", weight * pods * missed)
        if self.objective.taints:
            taints = -self.objective.static(g, TAINTS)[nodes] * pods
            self._add(g, TAINTS, "PreferNoSchedule taints that it does not tolerate", taints)
        if cls.images is not None:
            scores = self.objective.static(g, IMAGE_LOCALITY)
            self._add(g, IMAGE_LOCALITY, "images that its node does not have", (int(scores.max(initial=0)) - scores[nodes]) * pods)

    def _pairs(self, cluster: Cluster, g: int, cls: PodClass) -> None:
        nodes, pods = self._placed.of(g)
        for pull in cls.pulls:
            codes, size = cluster.domains(pull.key)
            matching = cluster.matching(pull.matcher)
            fixed = cluster.fixed_count(pull.matcher)
            present = self._placed.per_domain(matching.tolist(), codes, size) + cluster.fixed_per_domain(pull.matcher, pull.key)
            itself = int(g in matching)
            met = np.append(present - itself, 0)[codes[nodes]]
            matching_pods = int(self._total[matching].sum()) + int(fixed.sum()) - itself
            per_pod = pull.weight * (matching_pods - met) if pull.weight > 0 else -pull.weight * met
            family = REQUIRED_AFFINITY if pull.required else POD_AFFINITY
            self._add(g, family, _text(pull), np.asarray(per_pod * pods, dtype=np.int64))

    def _spread(self, cluster: Cluster) -> None:
        for tally, over in zip(self.objective.tallies, self._excesses, strict=True):
            if not over:
                continue
            owner = cluster.classes[tally.owners[0]]
            text = f"ScheduleAnyway maxSkew {tally.spread.max_skew} over {tally.spread.key}"
            self._enter(workload(cluster.snapshot.pods[owner.pods[0]]), TOPOLOGY_SPREAD, text, over, SKEW_COST * over)

    def _containers(self, cluster: Cluster, zones: AssignedZones) -> None:
        containers = self.objective.containers
        for g in containers.involved:
            cls = containers.class_of(g)
            wanted = sum(max(w * containers.max_points, w * containers.levels.sameNode) for _, _, w in cls.inner)
            lost = []
            for n, k in zip(*(part.tolist() for part in self._placed.of(g)), strict=True):
                if n in containers.zoned:
                    lost.append(sum(wanted - containers.inside(g, cluster.trees[n], pools) for pools in zones.pools.get((g, n), ())))
                else:
                    lost.append((wanted - containers.levels.sameZone * sum(w for _, _, w in cls.inner)) * k)
            self._add(g, CONTAINER_AFFINITY, "hints between its own containers", np.array(lost, dtype=np.int64))
            outer = self._outer(cluster, g, zones)
            if outer > 0 and self._pods[g]:
                placed = int(self.counts[g].sum())
                for owner, pods in self._pods[g].items():
                    part = sum(pods.values())
                    self._enter(owner, CONTAINER_AFFINITY, "hints towards containers of other pods", part, outer * part // placed)

    def _outer(self, cluster: Cluster, g: int, zones: AssignedZones) -> int:
        """Return the points lost by the scoped hints of a class: unmet pulls, and pushes from nearby containers."""
        containers = self.objective.containers
        cls = containers.class_of(g)
        placed = self.counts.sum(axis=1)
        lost = 0
        for i, own in enumerate(cls.entries):
            for predicate, weight in own:
                near = self._near(cluster, g, i, predicate, zones)
                if weight > 0:
                    fixed = cluster.fixed_containers.satisfying.get(predicate)
                    others = sum(int(placed[h]) for h, _ in containers.satisfying(predicate, containers.involved))
                    others += int(fixed.sum()) if fixed is not None else 0
                    own_hit = int(predicate in cls.hits[i])
                    lost += weight * (int(placed[g]) * (others - own_hit) * containers.max_points - near)
                else:
                    lost -= weight * near
        return lost

    def _near(self, cluster: Cluster, g: int, i: int, predicate: int, zones: AssignedZones) -> int:
        """Return Σ of closeness between container i of the class's pods and the containers that satisfy a predicate."""
        containers = self.objective.containers
        total = 0
        for n in np.flatnonzero(self.counts[g]).tolist():
            tree = cluster.trees[n] if n in containers.zoned else None
            fixed = cluster.fixed_containers.satisfying.get(predicate)
            outer = containers.levels.sameZone if tree is None else containers.levels.sameNode
            total += int(self.counts[g, n]) * outer * (int(fixed[n]) if fixed is not None else 0)
            here = [(h, j) for h, j in containers.satisfying(predicate, containers.involved) if self.counts[h, n]]
            if tree is None:
                met = sum(int(self.counts[h, n]) for h, _ in here) - int((g, i) in here)
                total += int(self.counts[g, n]) * met * outer
                continue
            for k, mine in enumerate(zones.pools.get((g, n), ())):
                for h, j in here:
                    for m, theirs in enumerate(zones.pools.get((h, n), ())):
                        if (g, k, i) != (h, m, j):
                            total += closeness(tree, containers.levels, mine[i], theirs[j])
        return total


def _text(pull: Pull) -> str:
    if pull.required:
        return f"more pods of its required affinity, per {pull.key}"
    kind = "affinity" if pull.weight > 0 else "anti-affinity"
    return f"preferred pod {kind} of weight {abs(pull.weight)}, per {pull.key}"
