"""PodTopologySpread (DoNotSchedule) for the checker: pod counts per domain.

Source: kube-scheduler plugin podtopologyspread (common.go, filtering.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kubestow.checker.reading import matching
from kubestow.checker.reading.eligible_nodes import Eligible
from kubestow.models.kube import objects
from kubestow.models.kube.feature_gates import FeatureGates


class Census(NamedTuple):
    """The definition of a count: which pods are counted, and where.

    Attributes:
        namespace: Namespace of the pods.
        selector: Selects the pods.
        key: Topology key of the domains.
        eligible: Names of the eligible nodes.
    """

    namespace: str
    selector: matching.Selector
    key: str
    eligible: frozenset[str]


@dataclass(eq=False)
class Count:
    """The number of pods in each domain.

    Attributes:
        census: The definition.
        size: Number of domains with an eligible node.
        domains: Number of pods per domain; domains without pods may be missing.
        levels: Number of domains per count.
    """

    census: Census
    size: int
    domains: dict[str, int] = field(default_factory=dict)
    levels: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.levels = {0: self.size} if self.size else {}

    def change(self, domain: str, by: int) -> None:
        """Add pods to a domain."""
        before = self.domains.get(domain, 0)
        self.domains[domain] = before + by
        self.levels[before] -= 1
        if not self.levels[before]:
            del self.levels[before]
        self.levels[before + by] = self.levels.get(before + by, 0) + 1

    def minimum(self, min_domains: int) -> int:
        """Return the smallest count; 0 if there are fewer domains than ``min_domains``."""
        return 0 if self.size < max(1, min_domains) else min(self.levels)


class SpreadConstraint(NamedTuple):
    """A DoNotSchedule constraint of a pod."""

    tally: Count
    max_skew: int
    min_domains: int
    own: int  # 1 if the pod matches its own selector

    def why(self, domain: str, skew: int, least: int) -> str:
        """Describe the violation of the constraint."""
        number = self.tally.domains.get(domain, 0)
        return f"{self.tally.census.key}={domain} has {number} matching pods, minimum {least}: skew {skew} over maxSkew {self.max_skew}"


@dataclass(frozen=True)
class PodSpread:
    """The DoNotSchedule constraints of a pod.

    Attributes:
        constraints: The constraints.
        fault: Why they cannot be read, or None.
    """

    constraints: tuple[SpreadConstraint, ...] = ()
    fault: str | None = None


NO_SPREAD = PodSpread()


class SpreadState:
    """The bound pods as PodTopologySpread sees them. All pods to be judged must be read before the first one is added.

    Pods that share their parts share the result. They must not change and must stay in memory, because parts are identified by id.
    """

    def __init__(self, nodes: Mapping[str, objects.Node], gates: FeatureGates) -> None:
        self._eligible = Eligible(nodes, gates)
        self._counts: dict[Census, Count] = {}
        self._watched: dict[str, matching.Shelf[Count]] = {}
        self._profiles: dict[matching.Profile, list[Count]] = {}
        self._spreads: dict[tuple[str | int | None, ...], PodSpread] = {}

    def read(self, pod: objects.Pod) -> PodSpread:
        """Return the hard constraints of a pod, with matchLabelKeys merged into the selectors."""
        spec, metadata = pod.spec, pod.metadata
        if not spec.topologySpreadConstraints:
            return NO_SPREAD
        parts = (spec.topologySpreadConstraints, spec.nodeSelector, spec.affinity, spec.tolerations, metadata.labels)
        memo = (metadata.namespace, *map(id, parts))
        found = self._spreads.get(memo)
        if found is None:
            found = self._spreads[memo] = self._read(pod)
        return found

    def _read(self, pod: objects.Pod) -> PodSpread:
        hard = [c for c in pod.spec.topologySpreadConstraints or () if c.whenUnsatisfiable == "DoNotSchedule"]
        if not hard:
            return NO_SPREAD
        namespace, labels = pod.metadata.namespace or "default", pod.metadata.labels or {}
        keys = tuple(sorted({c.topologyKey for c in hard}))
        found = []
        for constraint in hard:
            extra = [matching.SelectorRequirement(k, "In", (labels[k],)) for k in constraint.matchLabelKeys or () if k in labels]
            try:
                selector = matching.label_selector(constraint.labelSelector, extra)
            except matching.InvalidSelector as error:
                return PodSpread(fault=str(error))
            honour_affinity = (constraint.nodeAffinityPolicy or "Honor") == "Honor"
            honour_taints = (constraint.nodeTaintsPolicy or "Ignore") == "Honor"
            eligible = self._eligible.of(pod.spec, keys, affinity=honour_affinity, taints=honour_taints)
            census = Census(namespace, selector, constraint.topologyKey, eligible)
            own = int(matching.selects(selector, labels))
            found.append(SpreadConstraint(self._count(census), constraint.maxSkew, constraint.minDomains or 1, own))
        return PodSpread(tuple(found))

    def _count(self, census: Census) -> Count:
        count = self._counts.get(census)
        if count is None:
            count = self._counts[census] = Count(census, self._eligible.domains(census.eligible, census.key))
            if census.selector:  # neither an empty nor a nil selector counts running pods
                self._watched.setdefault(census.namespace, matching.Shelf()).file(census.selector, count)
        return count

    def watching(self, pod: objects.Pod, profile: matching.Profile) -> Sequence[Count]:
        """Return the counts that include the pod on eligible nodes. ``profile`` is its namespace and labels."""
        watched = self._watched.get(profile[0])
        if watched is None or objects.is_terminating(pod):
            return ()
        if profile not in self._profiles:
            labels = pod.metadata.labels or {}
            self._profiles[profile] = [c for c in watched.candidates(labels) if matching.selects(c.census.selector, labels)]
        return self._profiles[profile]

    def counted(self, pod: objects.Pod, node: objects.Node | None, profile: matching.Profile) -> Iterator[tuple[Count, str]]:
        """Yield the counts that include the pod on the node, with the domain."""
        return domains(self.watching(pod, profile), node) if node is not None else iter(())

    def add(self, pod: objects.Pod, node: objects.Node, profile: matching.Profile, by: int = 1) -> None:
        """Add the pod to its counts, or remove it (``by`` -1)."""
        count(self.watching(pod, profile), node, by)


def domains(counts: Iterable[Count], node: objects.Node) -> Iterator[tuple[Count, str]]:
    """Yield the counts that include a pod on the node, with the domain."""
    for each in counts:
        if node.metadata.name in each.census.eligible:
            yield each, (node.metadata.labels or {})[each.census.key]


def count(counts: Iterable[Count], node: objects.Node, by: int = 1) -> None:
    """Add a pod on the node to the counts, or remove it (``by`` -1)."""
    for each, domain in domains(counts, node):
        each.change(domain, by)


def faults(spread: PodSpread, node: objects.Node, *, running: bool = False) -> list[str]:
    """Return why the rule rejects a pod with these constraints on the node, given the pods added before.

    ``running`` means that the pod itself is among these, perhaps on a node that is not counted.
    """
    if spread is NO_SPREAD:
        return []
    if spread.fault is not None:
        return [f"a topology spread constraint cannot be read: {spread.fault}"]
    labels = node.metadata.labels or {}
    found = []
    for constraint in spread.constraints:
        tally = constraint.tally
        domain = labels.get(tally.census.key)
        if domain is None:
            found.append(f"the node lacks the topology key {tally.census.key} of a spread constraint")
            continue
        least = tally.minimum(constraint.min_domains)
        counted = running and node.metadata.name in tally.census.eligible
        skew = tally.domains.get(domain, 0) + (0 if counted else constraint.own) - least
        if skew > constraint.max_skew:
            found.append(constraint.why(domain, skew, least))
    return found


def welcome(spread: PodSpread, node: objects.Node, guests: Iterable[objects.Pod]) -> None:
    """Add nominated pods to constraints with an empty selector.

    Such a constraint counts no bound pods, but pods that are added later match it (updateWithPod).
    """
    for guest in guests:
        for constraint in spread.constraints:
            census = constraint.tally.census
            if (
                census.selector == ()
                and census.namespace == (guest.metadata.namespace or "default")
                and node.metadata.name in census.eligible
            ):
                constraint.tally.change((node.metadata.labels or {})[census.key], 1)


def final_faults(placed: Iterable[tuple[PodSpread, objects.Node]]) -> list[tuple[int, str]]:
    """Return broken constraints in domains that received a constrained pod, once per constraint and domain.

    Returns:
        Tuples of a pod's position in ``placed`` and the reason.
    """
    found: list[tuple[int, str]] = []
    reported: set[tuple[int, int, int, str]] = set()
    for position, (spread, node) in enumerate(placed):
        if not spread.constraints:
            continue
        for constraint in spread.constraints:
            domain = (node.metadata.labels or {}).get(constraint.tally.census.key)
            if domain is None:
                continue
            mark = (id(constraint.tally), constraint.max_skew, constraint.min_domains, domain)
            if mark in reported:
                continue
            reported.add(mark)
            least = constraint.tally.minimum(constraint.min_domains)
            skew = constraint.tally.domains.get(domain, 0) - least
            if skew > constraint.max_skew:
                found.append((position, "in the final state " + constraint.why(domain, skew, least)))
    return found
