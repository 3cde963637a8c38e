"""Preferences that are not met, as a Placement tells them, counted again by workload, and sums that have to agree.

A preferred or implicit affinity term loses its weight for each pod that it selects and that is not in the pod's domain; anti-affinity for
each that is. What containers lose to each other is not counted again; spread constraints belong to many pods, so only their sum is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from checker.claims.document import controller_name
from checker.objective.image_locality import ImageLocality
from checker.objective.kinds import Kinds, labels_of, taints_of
from checker.objective.preferences import TAINT_POINTS, preferred_terms
from checker.rules import affinity, matching
from checker.violation import DOCUMENT, Violation
from models.documents.placement import Placement, Preferences
from models.documents.policy import DEFAULT, Policy
from models.gangs.gangs import TOGETHER, Gang
from models.kube import objects
from models.snapshot.snapshot import Snapshot

#: So many unmet preferences are listed.
LISTED: Final = 50
#: Families whose losses are counted again, one by one.
COUNTED: Final = frozenset({"nodeAffinity", "taints", "imageLocality", "podAffinity", "requiredAffinity"})

_Entry = tuple[str, str, str]  # workload, family, preference


def preference_claims(
    snapshot: Snapshot, placement: Placement, placed: Mapping[str, str], absent: Collection[str], gangs: Sequence[Gang]
) -> Iterator[Violation]:
    """Yield what the preferences of a Placement say wrongly. ``placed``: the node of each pod; ``absent``: bound pods that are placed
    again; ``gangs``: of pods to be placed."""
    said = placement.preferences
    soft = [tier for tier in placement.objective if tier.tier == "soft"]
    if said is None:
        if soft:
            yield Violation("", "", DOCUMENT, "there is a tier soft, and nothing is said of preferences")
        return
    policy = placement.policy or DEFAULT
    expected = _Losses(snapshot, placed, absent, policy, gangs).found
    for why in (*_sums(said, soft[0].value if soft else None), *_unmet(said, expected, policy)):
        yield Violation("", "", DOCUMENT, f"preferences: {why}")


def _sums(said: Preferences, soft: int | None) -> Iterator[str]:
    if soft is None:
        yield "they are given, and there is no tier soft"
        return
    spread = sum(family.value * family.multiplier for family in said.families if family.family == "topologySpread")
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
        if claim < found or (claim > found and len(said.unmet) < LISTED):
            yield f"{row.workload} is said to lose {claim}, its unmet preferences lose {found}"
    for name, number in lost.items():
        if number:
            yield f"{name} has unmet preferences and is not among the workloads"
    costs = sum(entry.lost for entry in said.unmet if entry.family == "topologySpread")
    if costs > -spread or (costs != -spread and len(said.unmet) < LISTED):
        yield f"spread constraints are said to cost {costs}, they cost {-spread}"


def _unmet(said: Preferences, expected: Mapping[_Entry, tuple[int, int]], policy: Policy) -> Iterator[str]:
    weights = {name: int(getattr(policy.multipliers, name)) for name in policy.multipliers.__struct_fields__}
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
    full = len(said.unmet) >= LISTED
    if len(said.unmet) > LISTED:
        yield f"{len(said.unmet)} unmet preferences are listed, {LISTED} at most"
    for key, claim in claims.items():
        if key[1] in COUNTED and claim != expected.get(key):
            pods, lost = expected.get(key, (0, 0))
            yield f"{' '.join(key)}: {claim[0]} pods are said to lose {claim[1]}, {pods} lose {lost}"
    for key, (pods, lost) in expected.items():
        if key not in claims and (not full or lost > (last or 0)):
            yield f"{' '.join(key)}: {pods} pods lose {lost}, and it is not listed"


class _Losses:
    """What each workload loses by each preference, in weighted points, with the number of pods that lose."""

    def __init__(
        self, snapshot: Snapshot, placed: Mapping[str, str], absent: Collection[str], policy: Policy, gangs: Sequence[Gang]
    ) -> None:
        self._snapshot, self._placed, self._policy = snapshot, placed, policy
        self._nodes = {node.metadata.name or "": node for node in snapshot.nodes}
        self._book: dict[_Entry, tuple[int, int]] = {}
        self._kinds = Kinds()
        self._chosen: dict[int, dict[frozenset[str], int]] = {}
        self._memo: dict[tuple[affinity.Match, str], tuple[int, Counter[str], frozenset[int]]] = {}
        gone = frozenset(absent)
        mine: list[tuple[objects.Pod, str]] = []
        for pod in snapshot.pods:
            if objects.is_terminal(pod):
                continue
            key = objects.pod_key(pod)
            node = placed.get(key) or ("" if key in gone else pod.spec.nodeName)
            if node not in self._nodes:
                continue
            if key in placed:
                mine.append((pod, node))
            self._kinds.of(pod).add(node, placed=key in placed, terminating=False)
        self._each(mine)
        self._gangs(gangs)

    @property
    def found(self) -> dict[_Entry, tuple[int, int]]:
        return self._book

    def _enter(self, pod: objects.Pod, family: str, text: str, lost: int) -> None:
        lost *= int(getattr(self._policy.multipliers, family))
        if lost > 0:
            key = controller_name(pod), family, text
            pods, before = self._book.get(key, (0, 0))
            self._book[key] = pods + 1, before + lost

    def _each(self, mine: list[tuple[objects.Pod, str]]) -> None:
        locality = ImageLocality(self._nodes) if self._policy.multipliers.imageLocality else None
        soft = {name: [t for t in taints_of(node) if t.effect == "PreferNoSchedule"] for name, node in self._nodes.items()}
        terms: dict[tuple[object, ...], list[tuple[str, str, int, str, affinity.Match]]] = {}
        for pod, name in mine:
            for chosen, weight in self._preferred_nodes(pod).items():
                if name not in chosen:
                    self._enter(pod, "nodeAffinity", f"preferred node affinity of weight {weight}", weight)
            met = sum(not any(matching.tolerates(t, taint) for t in pod.spec.tolerations or ()) for taint in soft[name])
            self._enter(pod, "taints", "PreferNoSchedule taints that it does not tolerate", -TAINT_POINTS * met)
            if locality is not None:
                best = max(locality.points(pod.spec, other) for other in self._nodes)
                self._enter(pod, "imageLocality", "images that its node does not have", best - locality.points(pod.spec, name))
            if pod.spec.affinity is not None:
                memo = id(pod.spec.affinity), pod.metadata.namespace, id(pod.metadata.labels)
                if memo not in terms:
                    terms[memo] = list(self._terms(pod))
                for family, text, weight, key, match in terms[memo]:
                    self._enter(pod, family, text, self._lost(pod, name, weight, key, match))

    def _preferred_nodes(self, pod: objects.Pod) -> dict[frozenset[str], int]:
        """The weight of each set of nodes that preferred node affinity names; terms that no node meets ask for nothing."""
        wanted = pod.spec.affinity.nodeAffinity if pod.spec.affinity else None
        if wanted is None or not wanted.preferredDuringSchedulingIgnoredDuringExecution:
            return {}
        found = self._chosen.get(id(wanted))
        if found is None:
            found = self._chosen[id(wanted)] = {}
            for term in wanted.preferredDuringSchedulingIgnoredDuringExecution:
                chosen = frozenset(n for n, node in self._nodes.items() if matching.term_holds(term.preference, labels_of(node), n))
                if chosen:
                    found[chosen] = found.get(chosen, 0) + term.weight
        return found

    def _terms(self, pod: objects.Pod) -> Iterator[tuple[str, str, int, str, affinity.Match]]:
        """Family, wording, weight, key and match of each term that counts, those that are alike as one."""
        found: dict[affinity.AffinityTerm, int] = {}
        for term, weight in preferred_terms(pod):
            found[term] = found.get(term, 0) + weight
        for (match, key), weight in found.items():
            kind = "affinity" if weight > 0 else "anti-affinity"
            yield "podAffinity", f"preferred pod {kind} of weight {abs(weight)}, per {key}", weight, key, match
        for (match, key), times in Counter(affinity.read_terms(pod).affinity).items():
            text = f"more pods of its required affinity, per {key}"
            yield "requiredAffinity", text, times * self._policy.hardPodAffinityWeight, key, match

    def _gangs(self, gangs: Sequence[Gang]) -> None:
        """Each member of a gang with a preferred topology wants every other one in its domain."""
        for gang in gangs:
            if gang.key is None or gang.required:
                continue
            members = [(pod, self._placed.get(objects.pod_key(pod))) for pod in (self._snapshot.pods[i] for i in gang.pods)]
            running = [self._snapshot.pods[i].spec.nodeName or "" for i in gang.bound]
            there = [
                labels_of(self._nodes[name]).get(gang.key) for name in [*(n for _, n in members if n), *running] if name in self._nodes
            ]
            inside = Counter(domain for domain in there if domain is not None)
            for pod, name in members:
                if name is not None:
                    domain = labels_of(self._nodes[name]).get(gang.key)
                    near = inside[domain] - 1 if domain is not None else 0
                    text = f"preferred pod affinity of weight {TOGETHER}, per {gang.key}"
                    self._enter(pod, "podAffinity", text, TOGETHER * (len(there) - 1 - near))

    def _lost(self, pod: objects.Pod, name: str, weight: int, key: str, match: affinity.Match) -> int:
        everywhere, by_domain, kinds = self._matching(match, key)
        itself = id(self._kinds.of(pod)) in kinds
        domain = labels_of(self._nodes[name]).get(key)
        here = by_domain[domain] - itself if domain is not None else 0
        return weight * (everywhere - itself - here) if weight > 0 else -weight * here

    def _matching(self, match: affinity.Match, key: str) -> tuple[int, Counter[str], frozenset[int]]:
        """How many pods a term selects, all over and by domain of its key, and which kinds they are of."""
        if (match, key) not in self._memo:
            spaces = {name: namespace.metadata.labels or {} for name, namespace in self._snapshot.namespaces.items()}
            kinds = [kind for kind in self._kinds if match.holds(kind.namespace, kind.labels, spaces.get(kind.namespace, {}))]
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
