"""PodTopologySpread (DoNotSchedule) for the checker: running counts per domain.

Source: kube-scheduler plugin podtopologyspread (common.go, filtering.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from models import kube
from solver import verify_matching as matching


class Census(NamedTuple):
    """What is counted, and where: pods of a namespace with such labels, on the eligible nodes, by domain of ``key``."""

    namespace: str
    selector: matching.Selector
    key: str
    eligible: frozenset[str]


@dataclass(eq=False)
class Count:
    """Pods per domain; every domain with an eligible node has an entry. ``levels``: how many domains have each count."""

    census: Census
    domains: dict[str, int] = field(default_factory=dict)
    levels: dict[int, int] = field(default_factory=dict)

    def change(self, domain: str, by: int) -> None:
        before = self.domains[domain]
        self.domains[domain] = before + by
        self.levels[before] -= 1
        if not self.levels[before]:
            del self.levels[before]
        self.levels[before + by] = self.levels.get(before + by, 0) + 1

    def minimum(self, min_domains: int) -> int:
        """The least count; 0 while there are fewer domains than wanted."""
        return 0 if len(self.domains) < max(1, min_domains) else min(self.levels)


class Constraint(NamedTuple):
    tally: Count
    max_skew: int
    min_domains: int
    own: int  # 1 if the pod matches its own selector

    def why(self, domain: str, skew: int, least: int) -> str:
        number = self.tally.domains.get(domain, 0)
        return f"{self.tally.census.key}={domain} has {number} matching pods, minimum {least}: skew {skew} over maxSkew {self.max_skew}"


@dataclass(frozen=True)
class Spread:
    """The DoNotSchedule constraints of a pod. ``fault`` tells why they cannot be read."""

    constraints: tuple[Constraint, ...] = ()
    fault: str | None = None


NO_SPREAD = Spread()


class SpreadState:
    """The pods bound so far, as PodTopologySpread sees them. All pods to be judged must be read before the first is added."""

    def __init__(self, nodes: Sequence[kube.Node]) -> None:
        self._nodes = nodes
        self._eligible: dict[tuple[tuple[str, ...], bytes, bytes], frozenset[str]] = {}
        self._counts: dict[Census, Count] = {}
        self._watched: dict[str, matching.Shelf[Count]] = {}
        self._profiles: dict[tuple[str, frozenset[tuple[str, str]]], list[Count]] = {}

    def read(self, pod: kube.Pod) -> Spread:
        """The hard constraints of a pod, with matchLabelKeys merged into the selectors."""
        hard = [c for c in pod.spec.topologySpreadConstraints or () if c.whenUnsatisfiable == "DoNotSchedule"]
        if not hard:
            return NO_SPREAD
        namespace, labels = pod.metadata.namespace or "default", pod.metadata.labels or {}
        keys = tuple(sorted({c.topologyKey for c in hard}))
        found = []
        for constraint in hard:
            extra = [matching.Requirement(k, "In", (labels[k],)) for k in constraint.matchLabelKeys or () if k in labels]
            try:
                selector = matching.label_selector(constraint.labelSelector, extra)
            except matching.InvalidSelector as error:
                return Spread(fault=str(error))
            census = Census(namespace, selector, constraint.topologyKey, self._eligible_nodes(pod.spec, keys, constraint))
            own = int(matching.selects(selector, labels))
            found.append(Constraint(self._count(census), constraint.maxSkew, constraint.minDomains or 1, own))
        return Spread(tuple(found))

    def _eligible_nodes(self, spec: kube.PodSpec, keys: tuple[str, ...], constraint: kube.TopologySpreadConstraint) -> frozenset[str]:
        honour_affinity = (constraint.nodeAffinityPolicy or "Honor") == "Honor"
        honour_taints = (constraint.nodeTaintsPolicy or "Ignore") == "Honor"
        wanted = (spec.nodeSelector, spec.affinity.nodeAffinity if spec.affinity else None) if honour_affinity else ()
        tolerated = (spec.tolerations,) if honour_taints else ()
        memo = (keys, msgspec.json.encode(wanted), msgspec.json.encode(tolerated))
        if memo not in self._eligible:
            self._eligible[memo] = frozenset(
                node.metadata.name or ""
                for node in self._nodes
                if all(key in (node.metadata.labels or {}) for key in keys)
                and not (honour_affinity and matching.node_affinity_fault(spec, node))
                and not (honour_taints and matching.untolerated_taint(spec.tolerations, _taints(node)))
            )
        return self._eligible[memo]

    def _count(self, census: Census) -> Count:
        count = self._counts.get(census)
        if count is None:
            count = self._counts[census] = Count(census)
            for node in self._nodes:
                if node.metadata.name in census.eligible:
                    count.domains[(node.metadata.labels or {})[census.key]] = 0
            if count.domains:
                count.levels[0] = len(count.domains)
            if census.selector:  # an empty selector counts no running pod, a nil one neither
                self._watched.setdefault(census.namespace, matching.Shelf()).file(census.selector, count)
        return count

    def add(self, pod: kube.Pod, node: kube.Node) -> None:
        if kube.is_terminating(pod):
            return
        namespace, labels = pod.metadata.namespace or "default", pod.metadata.labels or {}
        watched = self._watched.get(namespace)
        if watched is None:
            return
        profile = namespace, frozenset(labels.items())
        if profile not in self._profiles:
            self._profiles[profile] = [c for c in watched.candidates(labels) if matching.selects(c.census.selector, labels)]
        for count in self._profiles[profile]:
            if node.metadata.name in count.census.eligible:
                count.change((node.metadata.labels or {})[count.census.key], 1)


def faults(spread: Spread, node: kube.Node) -> list[str]:
    """Why the rule rejects a pod with these constraints on the node, against the pods added so far."""
    if spread.fault is not None:
        return [f"a topology spread constraint cannot be read: {spread.fault}"]
    labels = node.metadata.labels or {}
    found = []
    for constraint in spread.constraints:
        domain = labels.get(constraint.tally.census.key)
        if domain is None:
            found.append(f"the node lacks the topology key {constraint.tally.census.key} of a spread constraint")
            continue
        least = constraint.tally.minimum(constraint.min_domains)
        skew = constraint.tally.domains.get(domain, 0) + constraint.own - least
        if skew > constraint.max_skew:
            found.append(constraint.why(domain, skew, least))
    return found


def final_faults(placed: Iterable[tuple[Spread, kube.Node]]) -> list[tuple[int, str]]:
    """In the end, every domain that received a constrained pod obeys that pod's constraint; one report per constraint and domain.

    Gives the position of a pod in ``placed`` and the reason.
    """
    found: list[tuple[int, str]] = []
    told: set[tuple[int, int, int, str]] = set()
    for position, (spread, node) in enumerate(placed):
        for constraint in spread.constraints:
            domain = (node.metadata.labels or {}).get(constraint.tally.census.key)
            if domain is None:
                continue
            mark = (id(constraint.tally), constraint.max_skew, constraint.min_domains, domain)
            if mark in told:
                continue
            told.add(mark)
            least = constraint.tally.minimum(constraint.min_domains)
            skew = constraint.tally.domains.get(domain, 0) - least
            if skew > constraint.max_skew:
                found.append((position, "in the final state " + constraint.why(domain, skew, least)))
    return found


def _taints(node: kube.Node) -> list[kube.Taint]:
    return (node.spec.taints or []) if node.spec else []
