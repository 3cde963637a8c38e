"""Required affinity that no pod satisfies any more, and required anti-affinity between pods in one domain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kubestow.audit.checks.violated.running_pods import FindingGroup, Running, runs, whose
from kubestow.audit.view.finding import Code, some
from kubestow.models.cluster.cluster import AffinityTerm, Ids, Ints
from kubestow.models.documents.findings.audit import Finding
from kubestow.solver.rules.inter_pod_affinity.rule import InterPodAffinity
from kubestow.solver.rules.wording import selector

AFFINITY = Code(
    "KS106", "affinity-broken", "warning", "Required pod affinity is no longer satisfied",
    "Kubernetes keeps the pod running (IgnoredDuringExecution), but away from the pods that it requires. After a restart it can be placed "
    "only in their domains, and stays pending if there are none.",
    "Move the required pods back into its domain, or move it to theirs (kubestow rebalance --goal repair). If the pod works without them, "
    "make the term preferred.",
)  # fmt: skip
APART = Code(
    "KS107", "anti-affinity-broken", "warning", "Pods share a domain despite required anti-affinity",
    "Kubernetes keeps them running (IgnoredDuringExecution), but one failure stops pods that should fail separately, or they disturb each "
    "other. The scheduler would place neither pod there again.",
    "Delete or move one of the pods (kubestow rebalance --goal repair). Check for labels that were changed on running pods, and for pods "
    "that were bound without the scheduler.",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lonely:
    """Pods of class ``g`` on node ``n`` without the pods of their affinity in the node's domain of ``key``."""

    g: int
    n: int
    pods: tuple[int, ...]
    key: str


@dataclass(frozen=True, slots=True)
class SeparatedPods:
    """Pods in one domain that a term separates.

    Attributes:
        term: The anti-affinity term.
        domain: The domain, as ``key=value``.
        owners: Indices of the pods with the term, ascending.
        matched: Indices of the pods that it matches, ascending.
    """

    term: AffinityTerm
    domain: str
    owners: dict[int, None]
    matched: dict[int, None]

    def broken_by(self, i: int) -> bool:
        """Return True if the pod shares the domain with a pod from which the term separates it."""
        return (i in self.owners and any(j != i for j in self.matched)) or (i in self.matched and any(j != i for j in self.owners))


def lonely(running: Running) -> Iterator[Lonely]:
    """Yield pods whose required affinity no other pod satisfies.

    A pod that alone matches its own terms satisfies them itself on nodes with all keys, because it was the first of
    its group.

    Source: kube-scheduler plugin interpodaffinity (filtering.go, satisfyPodAffinity).
    """
    cluster = running.cluster
    if not any(cls.affinity is not None for cls in cluster.classes):
        return
    rule = InterPodAffinity(cluster)
    for g, cells in enumerate(running.cells):
        if rule.feeds(g):
            for n, pods in cells:
                rule.place(g, n, len(pods))
    for g, cls in enumerate(cluster.classes):
        index = rule.attraction(g)
        if cls.affinity is None or index is None or not running.steady[g]:
            continue
        found, own = rule.attractions[index], int(cls.affinity.itself)
        for n, pods in running.cells[g]:
            if not running.view.unsure.isdisjoint(pods):
                continue  # it depends on unknown labels of namespaces
            first = bool(own) and found.total - int(found.any_key[n]) == 0
            for key, codes, count in zip(found.keys, found.codes, found.counts, strict=True):
                if codes[n] < 0 or (not first and count[codes[n]] - own < 1):
                    yield Lonely(g, n, tuple(pods), key)


def together(running: Running) -> Iterator[SeparatedPods]:
    """Yield pods in one domain that required anti-affinity separates, by term and domain, unless all are terminating."""
    cluster = running.cluster
    owners: dict[AffinityTerm, list[int]] = {}
    for g, cls in enumerate(cluster.classes):
        for term in cls.anti:
            owners.setdefault(term, []).append(g)
    for term, mine in owners.items():
        codes, size = cluster.domains(term.key)
        theirs = cluster.matching(term.matcher).tolist()
        own, match = (_counts(running, classes, codes, size) for classes in (mine, theirs))
        both = _counts(running, sorted({*mine} & {*theirs}), codes, size)
        crowded = {int(d) for d in np.flatnonzero(own * match - both)}
        if not crowded:
            continue
        inside: list[dict[int, list[int]]] = []
        for classes in (mine, theirs):
            by_domain: dict[int, list[int]] = {}
            for g in classes:
                for n, pods in running.cells[g]:
                    if int(codes[n]) in crowded:
                        by_domain.setdefault(int(codes[n]), []).extend(pods)
            inside.append(by_domain)
        _, values = cluster.nodes.column(term.key)
        for d in sorted(crowded, key=lambda d: values[d]):
            found = SeparatedPods(term, f"{term.key}={values[d]}", *(dict.fromkeys(sorted(by_domain[d])) for by_domain in inside))
            unsure = running.view.unsure
            if unsure and not unsure.isdisjoint(found.owners) and not unsure.isdisjoint(found.matched):
                continue  # it depends on unknown labels of namespaces
            if any(running.is_steady(i) and found.broken_by(i) for i in found.owners | found.matched):
                yield found


def _counts(running: Running, classes: list[int], codes: Ids, size: int) -> Ints:
    """Return int64[size]: the number of pods of the given classes per domain."""
    total = np.zeros(size + 1, dtype=np.int64)  # the last entry counts nodes without the key
    for g in classes:
        np.add.at(total, codes[running.nodes[g]], [len(pods) for _, pods in running.cells[g]])
    return total[:size]


def affinity(running: Running, but: frozenset[int]) -> Iterator[Finding]:
    """Yield findings about pods whose required affinity no other pod satisfies. Pods ``but`` are left out: other findings cover them."""
    view, cluster = running.view, running.cluster
    found: dict[tuple[str, str, str, str], FindingGroup] = {}
    for each in lonely(running):
        cls = cluster.classes[each.g]
        assert cls.affinity is not None
        wanted = selector(cluster, cls.affinity.full)
        domain = running.domain(each.key, each.n)
        for i in each.pods:
            if i not in but:
                group = found.setdefault((*whose(view, i), wanted, each.key), FindingGroup())
                group.add([i], domain or f"{cluster.nodes.names[each.n]} (no label {each.key})")
    for (name, path, wanted, key), group in found.items():
        pods, places = list(group.pods), list(group.places)
        only = places[0] if len(places) == 1 and places[0].startswith(f"{key}=") else None
        yield AFFINITY.found(
            name, f"no other pod {wanted}, as its required affinity demands, is in {some(places)}, where {runs(view, pods)}",
            field=f"{path}.affinity.podAffinity", rule="InterPodAffinity", pods=view.keys(pods), domain=only,
        )  # fmt: skip


def apart(running: Running) -> Iterator[Finding]:
    """Yield findings about broken required anti-affinity, one per workload with the term, with the pods of both sides."""
    view, cluster = running.view, running.cluster
    found: dict[tuple[str, str, str, AffinityTerm], FindingGroup] = {}
    for each in together(running):
        wanted = selector(cluster, each.term.matcher)
        broken = [i for i in each.owners | each.matched if running.is_steady(i) and each.broken_by(i)]
        owners = [i for i in broken if i in each.owners]
        # If all pods with the rule are terminating, the finding is about the other pods.
        objects: dict[tuple[str, str], list[int]] = {}
        for i in owners or broken:
            objects.setdefault(whose(view, i), []).append(i)
        for mine, pods in objects.items():
            found.setdefault((*mine, wanted, each.term), FindingGroup()).add([*pods, *(each.matched if owners else ())], each.domain)
    for (name, path, wanted, _), group in found.items():
        pods, places = sorted(group.pods), list(group.places)
        keys = view.keys(pods)
        yield APART.found(
            name, f"required anti-affinity to pods {wanted} is broken in {some(places)}, by {some(keys)}",
            field=f"{path}.affinity.podAntiAffinity", rule="InterPodAffinity", pods=keys,
            domain=places[0] if len(places) == 1 else None,
        )  # fmt: skip
