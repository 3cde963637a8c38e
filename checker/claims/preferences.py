"""Gains and losses of workloads by preferences, recounted. Replicas are counted together.

A preferred or implicit affinity term loses its weight for each selected pod outside the pod's domain. An
anti-affinity term loses it for each selected pod inside. Container affinity is not recounted, so gains are compared
only as a sum if it counts. Spread constraints belong to many pods, so their costs are also compared as a sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kubestow.checker.claims.document import controller_name
from kubestow.checker.objective.families import KINDS, build, named
from kubestow.checker.objective.families.base import Family, Scene
from kubestow.checker.objective.families.pod_affinity import PodAffinity
from kubestow.checker.objective.kinds import Kinds, PodKind, labels_of
from kubestow.checker.reading import affinity_terms
from kubestow.checker.replicas import Whereabouts
from kubestow.checker.violation import DOCUMENT, Violation
from kubestow.models.documents.placement import Placement, Preferences
from kubestow.models.documents.policy import DEFAULT, Policy
from kubestow.models.gangs.gangs import PREFERRED_TOPOLOGY_POINTS, Gang
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

#: Largest number of unmet preferences that a document lists.
MAX_LISTED_PREFERENCES: Final = 50

_Entry = tuple[str, str, str]  # workload, family, preference


class _Term(NamedTuple):
    """A weighted affinity term.

    Attributes:
        family: Family of preferences.
        text: The document's words for the term.
        weight: Points per pair of pods; negative for anti-affinity.
        key: Topology key.
        match: The pods that it selects.
    """

    family: Family
    text: str
    weight: int
    key: str
    match: affinity_terms.Match


def preference_claims(snapshot: Snapshot, placement: Placement, where: Whereabouts, gangs: Sequence[Gang]) -> Iterator[Violation]:
    """Yield false claims of a Placement about preferences.

    Args:
        snapshot: The snapshot.
        placement: The document.
        where: The pods with their nodes.
        gangs: Gangs of the pods to be placed.
    """
    said = placement.preferences
    soft = [tier for tier in placement.objective if tier.tier == "soft"]
    if said is None:
        if soft:
            yield Violation("", "", DOCUMENT, "there is a tier soft, and nothing is said of preferences")
        return
    policy = placement.policy or DEFAULT
    book = _Book(Scene(snapshot, policy, {node.metadata.name or "": node for node in snapshot.nodes}, where.placed, gangs))
    book.read(where)
    book.read_gangs()
    for why in (*_sums(said, soft[0].value if soft else None), *_gains(said, book.gained), *_unmet(said, book.lost, policy)):
        yield Violation("", "", DOCUMENT, f"preferences: {why}")


def _sums(said: Preferences, soft: int | None) -> Iterator[str]:
    """Yield sums that differ from the soft tier or from the listed rows."""
    if soft is None:
        yield "they are given, and there is no tier soft"
        return
    summed = named("sum")
    spread = sum(family.value * family.multiplier for family in said.families if family.family in summed)
    gained = sum(row.value for row in said.workloads)
    if gained != soft - spread:
        yield f"the workloads are said to gain {gained} together, the tier soft without spread constraints is {soft - spread}"
    names = [row.workload for row in said.workloads]
    if len(set(names)) < len(names):
        yield "a workload is given twice"
    lost = Counter[str]()
    for entry in said.unmet:
        lost[entry.workload] += entry.lost
    for row in said.workloads:
        claim, found = row.lost, lost.pop(row.workload, 0)
        if claim < found or (claim > found and len(said.unmet) < MAX_LISTED_PREFERENCES):
            yield f"{row.workload} is said to lose {claim}, its unmet preferences lose {found}"
    for name, number in lost.items():
        if number:
            yield f"{name} has unmet preferences and is not among the workloads"
    costs = sum(entry.lost for entry in said.unmet if entry.family in summed)
    if costs > -spread or (costs != -spread and len(said.unmet) < MAX_LISTED_PREFERENCES):
        yield f"spread constraints are said to cost {costs}, they cost {-spread}"


def _gains(said: Preferences, expected: Mapping[str, int]) -> Iterator[str]:
    """Yield workloads whose gain differs from the recount."""
    if any(family.family in named("none") for family in said.families):
        return
    rows = {row.workload: row.value for row in said.workloads}
    for name in sorted(rows.keys() | expected.keys()):
        if rows.get(name, 0) != expected.get(name, 0):
            yield f"{name} is said to gain {rows.get(name, 0)}, it gains {expected.get(name, 0)}"


def _unmet(said: Preferences, expected: Mapping[_Entry, tuple[int, int]], policy: Policy) -> Iterator[str]:
    """Yield faults of the list of unmet preferences."""
    weights, counted = {kind.name: kind.weight(policy) for kind in KINDS}, named("each")
    claims: dict[_Entry, tuple[int, int]] = {}
    last: int | None = None
    for entry in said.unmet:
        key = entry.workload, entry.family, entry.preference
        if key in claims:
            yield f"{' '.join(key)} is given twice"
        claims[key] = entry.pods, entry.lost
        if entry.family not in weights:
            yield f"there is no family {entry.family!r}"
        elif entry.lost <= 0 or entry.pods < 0:
            yield f"{' '.join(key)}: {entry.pods} pods are said to lose {entry.lost}"
        if last is not None and entry.lost > last:
            yield f"{' '.join(key)} loses more than the one listed before it"
        last = entry.lost
    full = len(said.unmet) >= MAX_LISTED_PREFERENCES
    if len(said.unmet) > MAX_LISTED_PREFERENCES:
        yield f"{len(said.unmet)} unmet preferences are listed, {MAX_LISTED_PREFERENCES} at most"
    for key, claim in claims.items():
        if key[1] in counted and claim != expected.get(key):
            pods, lost = expected.get(key, (0, 0))
            yield f"{' '.join(key)}: {claim[0]} pods are said to lose {claim[1]}, {pods} lose {lost}"
    for key, (pods, lost) in sorted(expected.items()):
        if key not in claims and (not full or lost > (last or 0)):
            yield f"{' '.join(key)}: {pods} pods lose {lost}, and it is not listed"


class _Book:
    """Recounted gains and losses, in weighted points.

    A pair of pods counts for the pod that has the preference. If a running pod has it, the pair counts for the pod that is placed.

    Attributes:
        gained: Points per workload.
        lost: Number of losing pods and lost points, per workload, family and preference.
    """

    def __init__(self, scene: Scene) -> None:
        snapshot = scene.snapshot
        self._scene, self._nodes = scene, scene.nodes
        self._families = build(scene, "each")
        self.lost: dict[_Entry, tuple[int, int]] = {}
        self.gained: Counter[str] = Counter()
        self._terms_of: dict[tuple[object, ...], list[_Term]] = {}
        self._spaces = {name: namespace.metadata.labels or {} for name, namespace in snapshot.namespaces.items()}
        self._kinds = Kinds()
        self._memo: dict[tuple[affinity_terms.Match, str], tuple[int, Counter[str], frozenset[int]]] = {}

    def read(self, where: Whereabouts) -> None:
        """Count the pods by their preferences. Replicas are counted together; bare pods alone, because they gain under
        their own names.
        """
        mine: list[tuple[objects.Pod, list[str]]] = []
        given: dict[tuple[Family, str, affinity_terms.Match], Counter[str]] = {}
        for pod, on in where.on:
            if objects.is_terminal(pod):
                continue
            placed, staying = on
            if placed:
                mine += [(pod, placed)] if objects.controller_of(pod) is not None else []
                self._kinds.of(pod).add(placed, placed=True, terminating=False)
            if staying:
                self._give(pod, staying, given)
                self._kinds.of(pod).add(staying, placed=False, terminating=False)
        crowd = where.crowd
        bare = [objects.controller_of(pod) is None and not objects.is_terminal(pod) for pod in crowd.replicas.first]
        for key, node in where.placed.items() if any(bare) else ():
            if node in self._nodes and key in crowd.at and bare[crowd.set_of[crowd.at[key]]]:
                mine.append((crowd[key], [node]))
        self._each(mine, given)

    def _gain(self, pod: objects.Pod, family: Family, points: int) -> None:
        """Add points to the workload of a pod."""
        if points:
            self.gained[controller_name(pod)] += points * family.weight(self._scene.policy)

    def _give(self, pod: objects.Pod, nodes: Sequence[str], given: dict[tuple[Family, str, affinity_terms.Match], Counter[str]]) -> None:
        """Add the points that terms of remaining pods offer, by family, key and match, and by domain."""
        for term in self._own(pod, staying=True):
            for node in nodes:
                domain = labels_of(self._nodes[node]).get(term.key)
                if domain is not None:
                    given.setdefault((term.family, term.key, term.match), Counter())[domain] += term.weight

    def _own(self, pod: objects.Pod, *, staying: bool = False) -> list[_Term]:
        """Return the terms of a pod, with equal ones merged, cached per affinity, namespace and labels.

        Args:
            pod: The pod.
            staying: True for the effect of a pod that stays on pods to be placed.
        """
        if pod.spec.affinity is None:
            return []
        memo = id(pod.spec.affinity), pod.metadata.namespace, id(pod.metadata.labels), staying
        if memo not in self._terms_of:
            found: dict[tuple[Family, affinity_terms.AffinityTerm], int] = {}
            for family in self._families:
                for term, weight in family.terms(pod, staying=staying):
                    found[family, term] = found.get((family, term), 0) + weight
            self._terms_of[memo] = [_Term(f, f.words(weight, key), weight, key, match) for (f, (match, key)), weight in found.items()]
        return self._terms_of[memo]

    def _enter(self, pod: objects.Pod, family: Family, text: str, losses: Iterable[int]) -> None:
        """Record a loss of points for each replica of a pod."""
        weight = family.weight(self._scene.policy)
        real = [lost * weight for lost in losses if lost * weight > 0]
        if real:
            key = controller_name(pod), family.name, text
            pods, before = self.lost.get(key, (0, 0))
            self.lost[key] = pods + len(real), before + sum(real)

    def _each(
        self, mine: list[tuple[objects.Pod, list[str]]], given: Mapping[tuple[Family, str, affinity_terms.Match], Counter[str]]
    ) -> None:  # fmt: skip
        """Count every preference of the placed pods."""
        for pod, nodes in mine:
            for family in self._families:
                for text, losses, gain in family.recount(pod, nodes):
                    self._enter(pod, family, text, losses)
                    self._gain(pod, family, gain)
            for term in self._own(pod):
                pairs = [self._met(pod, name, term) for name in nodes]
                losses = [term.weight * missed if term.weight > 0 else -term.weight * met for met, missed in pairs]
                self._enter(pod, term.family, term.text, losses)
                self._gain(pod, term.family, term.weight * sum(met for met, _ in pairs))
            for (family, key, match), sums in given.items():
                if self._holds(match, self._kinds.of(pod)):
                    domains = [labels_of(self._nodes[name]).get(key) for name in nodes]
                    self._gain(pod, family, sum(sums[domain] for domain in domains if domain is not None))

    def read_gangs(self) -> None:
        """Count the preferred topology of gangs: each member prefers every other member in its domain."""
        family, scene = next(each for each in self._families if isinstance(each, PodAffinity)), self._scene
        for gang in scene.gangs:
            if gang.key is None or gang.required:
                continue
            members = [(pod, scene.placed.get(objects.pod_key(pod))) for pod in (scene.snapshot.pods[i] for i in gang.pods)]
            running = [scene.snapshot.pods[i].spec.nodeName or "" for i in gang.bound]
            there = [
                labels_of(self._nodes[name]).get(gang.key) for name in [*(n for _, n in members if n), *running] if name in self._nodes
            ]
            inside = Counter(domain for domain in there if domain is not None)
            for pod, name in members:
                if name is not None:
                    domain = labels_of(self._nodes[name]).get(gang.key)
                    near = inside[domain] - 1 if domain is not None else 0
                    text = family.words(PREFERRED_TOPOLOGY_POINTS, gang.key)
                    self._enter(pod, family, text, [PREFERRED_TOPOLOGY_POINTS * (len(there) - 1 - near)])
                    running_near = sum(
                        domain is not None and labels_of(self._nodes[other]).get(gang.key) == domain
                        for other in running if other in self._nodes
                    )  # fmt: skip
                    self._gain(pod, family, PREFERRED_TOPOLOGY_POINTS * (near + running_near))

    def _met(self, pod: objects.Pod, name: str, term: _Term) -> tuple[int, int]:
        """Return two numbers of pods that a pod's term selects: inside the pod's domain, and outside."""
        everywhere, by_domain, kinds = self._matching(term.match, term.key)
        itself = id(self._kinds.of(pod)) in kinds
        domain = labels_of(self._nodes[name]).get(term.key)
        here = by_domain[domain] - itself if domain is not None else 0
        return here, everywhere - itself - here

    def _holds(self, match: affinity_terms.Match, kind: PodKind) -> bool:
        return match.holds(kind.namespace, kind.labels, self._spaces.get(kind.namespace, {}))

    def _matching(self, match: affinity_terms.Match, key: str) -> tuple[int, Counter[str], frozenset[int]]:
        """Return the pods that a term selects: their number, their number per domain, and the ids of their kinds."""
        if (match, key) not in self._memo:
            kinds = [kind for kind in self._kinds.offered(match.selector) if self._holds(match, kind)]
            total, domains = 0, Counter[str]()
            for kind in kinds:
                for numbers in (kind.placed, kind.fixed):
                    for node, number in numbers.items():
                        total += number
                        domain = labels_of(self._nodes[node]).get(key)
                        if domain is not None:
                            domains[domain] += number
            self._memo[match, key] = total, domains, frozenset(map(id, kinds))
        return self._memo[match, key]
