"""The value of a placement, counted over every pod and every ordered pair of pods."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kubestow.checker.objective import tie_break
from kubestow.checker.objective.families import KINDS
from kubestow.checker.objective.families.base import NodeFamily, Scene
from kubestow.checker.objective.families.pod_affinity import preferred_terms
from kubestow.checker.objective.families.taints import TAINT_POINTS
from kubestow.checker.objective.families.topology_spread import CandidateNodes, SoftSpreadPoints
from kubestow.checker.objective.kinds import Kinds, node_affinity, taints_of
from kubestow.checker.reading import affinity_terms, matching, resources, taints
from kubestow.checker.replicas import Whereabouts
from kubestow.checker.violation import stays_with_node
from kubestow.models.documents.policy import Policy
from kubestow.models.gangs.gangs import PREFERRED_TOPOLOGY_POINTS, Gang
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

Found = list[tuple[objects.Pod, str, bool]]  # pod, node, whether the document places it


def there(snapshot: Snapshot, where: Whereabouts) -> Found:
    """Return the pods that are on a node, one by one."""
    found: Found = []
    for pod in snapshot.pods:
        key = objects.pod_key(pod)
        if key in where.placed:
            found.append((pod, where.placed[key], True))
        elif pod.spec.nodeName and key not in where.absent:
            found.append((pod, pod.spec.nodeName, False))
    return found


class Score:
    """The families of preferences and the tier `topologySpread`."""

    def __init__(self, snapshot: Snapshot, where: Whereabouts, policy: Policy, pending: Collection[str], gangs: Sequence[Gang]) -> None:
        self.snapshot = snapshot
        self.nodes = {node.metadata.name or "": node for node in snapshot.nodes}
        self.labels = {name: node.metadata.labels or {} for name, node in self.nodes.items()}
        self.spaces = {name: each.metadata.labels or {} for name, each in snapshot.namespaces.items()}
        self.there = [each for each in there(snapshot, where) if each[1] in self.nodes and not objects.is_terminal(each[0])]
        placed = [(pod, node) for pod, node, mine in self.there if mine]
        own = {"nodeAffinity": self._preferred, "taints": self._taints}
        scene, self.families = Scene(snapshot, policy, self.nodes, where.placed), dict[str, int]()
        for kind in KINDS:
            if issubclass(kind, NodeFamily) and kind.counts(policy):
                count = own[kind.name] if kind.name in own else kind(scene).worth
                self.families[kind.name] = sum(count(pod, node) for pod, node in placed)
        symmetric = policy.symmetricPreferredAntiAffinity
        self.families["podAffinity"] = self._gangs(gangs, where) + sum(
            self._pairs(each, [(t, w) for t, w in preferred_terms(each[0]) if w > 0 or each[2] or symmetric]) for each in self.there
        )
        self.families["requiredAffinity"] = sum(
            self._pairs(each, [(term, policy.hardPodAffinityWeight) for term in affinity_terms.read_terms(each[0]).affinity])
            for each in self.there
        )
        fixed = [(pod, 1) for pod, _, mine in self.there if not mine]
        usable = CandidateNodes(snapshot, self.nodes, fixed, resources.SharedRequests(snapshot.gates))
        self.spread, self.kinds = SoftSpreadPoints(snapshot, self.nodes, policy, usable), Kinds()
        for pod, node, mine in self.there:
            self.kinds.of(pod).add([node], placed=mine, terminating=objects.is_terminating(pod))
        for pod in snapshot.pods:
            if objects.pod_key(pod) in pending and not objects.is_terminal(pod):
                self.spread.carry(pod, self.kinds.of(pod))
        self.families["topologySpread"] = self.spread.points(self.kinds)

    def evenness(self) -> int | None:
        return self.spread.unevenness(self.kinds)

    def _preferred(self, pod: objects.Pod, node: str) -> int:
        wanted = node_affinity(pod.spec)
        terms = wanted.preferredDuringSchedulingIgnoredDuringExecution if wanted is not None else None
        return sum(term.weight for term in terms or () if matching.term_holds(term.preference, self.labels[node], node))

    def _taints(self, pod: objects.Pod, node: str) -> int:
        soft = [taint for taint in taints_of(self.nodes[node]) if taint.effect == "PreferNoSchedule"]
        return TAINT_POINTS * sum(not taints.tolerated(pod.spec.tolerations, taint, self.snapshot.gates) for taint in soft)

    def _pairs(self, one: tuple[objects.Pod, str, bool], terms: list[tuple[affinity_terms.AffinityTerm, int]]) -> int:
        """Return the points of a pod's terms, over all other pods; of two that stay neither counts."""
        total = 0
        for (match, key), weight in terms:
            for other in self.there:
                space = other[0].metadata.namespace or "default"
                domain = self.labels[one[1]].get(key)
                if (
                    other is not one
                    and (one[2] or other[2])
                    and domain is not None
                    and self.labels[other[1]].get(key) == domain
                    and match.holds(space, other[0].metadata.labels or {}, self.spaces.get(space, {}))
                ):
                    total += weight
        return total

    def _gangs(self, gangs: Sequence[Gang], where: Whereabouts) -> int:
        total = 0
        for gang in gangs:
            if gang.key is None or gang.required:
                continue
            new = [where.placed.get(objects.pod_key(self.snapshot.pods[i]), "") for i in gang.pods]
            old = [self.snapshot.pods[i].spec.nodeName or "" for i in gang.bound]
            at = [self.labels.get(node, {}).get(gang.key) for node in (*new, *old)]
            for i, mine in enumerate(at):
                for j, its in enumerate(at):
                    total += PREFERRED_TOPOLOGY_POINTS * (i != j and min(i, j) < len(new) and mine is not None and mine == its)
        return total


def points_of(
    snapshot: Snapshot,
    where: Whereabouts,
    policy: Policy,
    *,
    used: dict[str, resources.Amounts],
    capacity: dict[str, resources.Amounts],
) -> int | None:
    """Return the value of the tier `strategy`."""
    pods = [each for each in there(snapshot, where) if each[2] or not objects.is_terminal(each[0])]
    if policy.strategy == "none" or not snapshot.nodes:
        return None
    if policy.strategy == "spread":
        return tie_break.balance([(pod, [node], not mine) for pod, node, mine in pods], used, capacity, snapshot.gates)
    occupied = {node for pod, node, mine in pods if mine or not stays_with_node(pod)}
    prices = [tie_break.price_of(node, policy.priceLabel) for node in snapshot.nodes if node.metadata.name in occupied]
    return None if None in prices else -sum(price or 0 for price in prices)
