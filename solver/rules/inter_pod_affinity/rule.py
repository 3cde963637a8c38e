"""InterPodAffinity: required affinity and anti-affinity between pods.

Source: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go. The encoding of affinity is in a separate module.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np

from kubestow.models.cluster.cluster import AffinityTerm, Cluster, Ids, Ints, RequiredAffinity, domain_sum
from kubestow.models.kube.selectors import Bools
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.rules.base import UNLIMITED_PODS, on_nodes
from kubestow.solver.rules.batch_limits import BatchLimits
from kubestow.solver.rules.facts import Refusal
from kubestow.solver.rules.inter_pod_affinity.encoding import AffinityEncoder, Attraction, Repulsion, encode_repulsion
from kubestow.solver.rules.inter_pod_affinity.remedies import AffinityRemedies
from kubestow.solver.rules.inter_pod_affinity.units import AffinityUnits
from kubestow.solver.rules.inter_pod_affinity.words import AffinityWords


class InterPodAffinity(AffinityUnits, AffinityWords, AffinityRemedies):
    """Required terms in both directions: affinity with bootstrap, anti-affinity with symmetry."""

    name = "InterPodAffinity"
    whole_units = tracks_moves = survives_merging = True
    local = any_order = first_come = supplied = settled = for_good = False
    reads = ("anti", "affinity")

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._repulsions: list[Repulsion] = []
        self._attractions: list[Attraction] = []
        ids: dict[AffinityTerm, int] = {}
        groups: dict[tuple[int, tuple[str, ...]], int] = {}
        self._own: list[list[int]] = []
        self._attraction_of: list[int | None] = []
        for cls in cluster.classes:
            self._own.append([self._repulsion(ids, term) for term in cls.anti])
            self._attraction_of.append(None if cls.affinity is None else self._attraction(groups, cls.affinity))
        for fixed in cluster.fixed_anti:
            repulsion = self._repulsions[self._repulsion(ids, fixed.term)]
            inside = repulsion.codes[fixed.nodes]
            np.add.at(repulsion.owners, inside[inside >= 0], 1)
        self._matching: list[list[int]] = [[] for _ in cluster.classes]
        for i, repulsion in enumerate(self._repulsions):
            for g in np.flatnonzero(repulsion.matches):
                self._matching[g].append(i)
        self._feeds: list[list[int]] = [[] for _ in cluster.classes]
        for i, attraction in enumerate(self._attractions):
            for g in np.flatnonzero(attraction.matches):
                self._feeds[g].append(i)
        self._nowhere = np.zeros(cluster.n_nodes, dtype=bool)  # shared by the many unrestricted classes
        never = (self._repelled(g) | self._unreachable(g) for g in range(cluster.n_classes))
        self._never = [nodes if nodes.any() else self._nowhere for nodes in never]

    def _repulsion(self, ids: dict[AffinityTerm, int], term: AffinityTerm) -> int:
        if term not in ids:
            ids[term] = len(self._repulsions)
            codes, size = self.cluster.domains(term.key)
            self._repulsions.append(
                Repulsion(
                    term, codes, size, domain_sum(codes, size, self.cluster.fixed_count(term.matcher)),
                    np.zeros(size, dtype=np.int64), self.cluster.matches(term.matcher),
                )
            )  # fmt: skip
        return ids[term]

    def _attraction(self, groups: dict[tuple[int, tuple[str, ...]], int], affinity: RequiredAffinity) -> int:
        key = (affinity.full, affinity.keys)
        if key not in groups:
            groups[key] = len(self._attractions)
            per_node = self.cluster.fixed_count(affinity.full)
            domains = [self.cluster.domains(k) for k in affinity.keys]
            any_key = np.zeros(self.cluster.n_nodes, dtype=bool)
            for codes, _ in domains:
                any_key |= codes >= 0
            self._attractions.append(
                Attraction(
                    affinity.full, affinity.keys, [c for c, _ in domains], [s for _, s in domains],
                    [domain_sum(c, s, per_node) for c, s in domains], any_key, int(per_node[any_key].sum()),
                    self.cluster.matches(affinity.full),
                )
            )  # fmt: skip
        return groups[key]

    # --- incremental face ---------------------------------------------------------------------------------------------

    def _repelled(self, g: int) -> Bools:
        mask = np.zeros(self.cluster.n_nodes, dtype=bool)
        for i in self._own[g]:
            r = self._repulsions[i]
            mask |= on_nodes(r.matching > 0, r.codes)
        for i in self._matching[g]:
            r = self._repulsions[i]
            mask |= on_nodes(r.owners > 0, r.codes)
        return mask

    def _lacks_provider(self, g: int) -> Bools:
        index, affinity = self._attraction_of[g], self.cluster.classes[g].affinity
        if index is None or affinity is None:
            return np.zeros(self.cluster.n_nodes, dtype=bool)
        a = self._attractions[index]
        lacks = np.zeros(self.cluster.n_nodes, dtype=bool)
        bootstrap = a.total == 0 and affinity.itself
        for codes, count in zip(a.codes, a.counts, strict=True):
            lacks |= codes < 0
            if not bootstrap:
                lacks |= ~on_nodes(count > 0, codes)
        return lacks

    def rejects(self, g: int) -> Bools:
        return self._repelled(g) | self._lacks_provider(g)

    def refusals(self, g: int) -> list[Refusal]:
        """Return the first reason that applies to each node, in kube-scheduler's order (filtering.go, Filter)."""
        nothing = np.zeros(self.cluster.n_nodes, dtype=bool)
        lacks, own, of_others = self._lacks_provider(g), nothing.copy(), nothing.copy()
        for i in self._own[g]:
            own |= on_nodes(self._repulsions[i].matching > 0, self._repulsions[i].codes)
        for i in self._matching[g]:
            of_others |= on_nodes(self._repulsions[i].owners > 0, self._repulsions[i].codes)
        own &= ~lacks
        found = (
            Refusal("node(s) didn't match pod affinity rules", lacks, lacks),
            Refusal("node(s) didn't match pod anti-affinity rules", own, nothing),
            Refusal("node(s) didn't satisfy existing pods anti-affinity rules", of_others & ~lacks & ~own, nothing),
        )
        return [refusal for refusal in found if refusal.nodes.any()]

    def alike(self, g: int) -> Hashable:
        if self._never[g] is not self._nowhere:
            return g
        return tuple(r.term.key for i in self._own[g] if (r := self._repulsions[i]).matches[g])

    def never(self, g: int) -> Bools:
        return self._never[g]

    def bars(self, g: int) -> list[tuple[Hashable, Bools]]:
        bars: list[tuple[Hashable, Bools]] = []
        for kind, indices in (("running", self._own[g]), ("symmetric", self._matching[g])):
            for i in indices:
                r = self._repulsions[i]
                bars.append(((kind, r.term), on_nodes((r.matching if kind == "running" else r.owners) > 0, r.codes)))
        index = self._attraction_of[g]
        if index is not None:
            bars.append((self._attractions[index].topic, self._unreachable(g)))
        return bars

    def closed(self, g: int) -> Bools:
        return self._never[g] | self._repelled(g)

    def _unreachable(self, g: int) -> Bools:
        """Return the nodes that lack a key of the class's affinity, or a running match if no pending pod can ever match."""
        index, affinity = self._attraction_of[g], self.cluster.classes[g].affinity
        if index is None or affinity is None:
            return np.zeros(self.cluster.n_nodes, dtype=bool)
        a = self._attractions[index]
        others = a.matches.copy()
        others[g] = False
        lacks = ~self.cluster.nodes.with_keys(a.keys)
        if not others.any() and (a.total > 0 or not affinity.itself):
            for codes, count in zip(a.codes, a.counts, strict=True):
                lacks |= ~on_nodes(count > 0, codes)
        return lacks

    def most(self, g: int) -> Ints:
        upper = np.full(self.cluster.n_nodes, UNLIMITED_PODS)
        for i in self._own[g]:
            if self._repulsions[i].matches[g]:
                upper[self._repulsions[i].codes >= 0] = 1
        return upper

    def room(self, g: int) -> Ints:
        return np.where(self.rejects(g), 0, self.most(g))

    def place(self, g: int, n: int, k: int = 1) -> None:
        for i in self._own[g]:
            r = self._repulsions[i]
            if r.codes[n] >= 0:
                r.owners[r.codes[n]] += k
        for i in self._matching[g]:
            r = self._repulsions[i]
            if r.codes[n] >= 0:
                r.matching[r.codes[n]] += k
        for i in self._feeds[g]:
            self._attractions[i].add(n, k)

    def touches(self, g: int) -> bool:
        """Return True if placing pods of the class changes this rule's verdict on other nodes, or on other pods of the class."""
        return bool(self._own[g] or self._matching[g] or self._feeds[g])

    def concerned(self, g: int) -> bool:
        return self.touches(g) or self._attraction_of[g] is not None

    def exclusive(self, g: int) -> list[tuple[Ids, int]]:
        """Return (codes int32[N], number of domains) of the keys over which pods of the class exclude each other."""
        return [(r.codes, r.size) for i in self._own[g] if (r := self._repulsions[i]).matches[g]]

    def reaches(self, g: int) -> bool:
        return self.touches(g)

    def batch(self, g: int) -> BatchLimits:
        own = self.cluster.classes[g].affinity
        founding = own.keys if own is not None and own.itself and self.opening(g) else ()
        return BatchLimits(founding=founding, exclusive=self.exclusive(g))

    def repairable(self, g: int) -> bool:
        return not self.provides(g)

    def exclusions(self) -> Iterator[tuple[Ints, Ints, str | None]]:
        owners: dict[tuple[int, str], list[int]] = {}
        for g, cls in enumerate(self.cluster.classes):
            for term in cls.anti:
                owners.setdefault((term.matcher, term.key), []).append(g)
        for (matcher, key), own in owners.items():
            carriers, matched = np.array(own, dtype=np.int64), np.flatnonzero(self.cluster.matches(matcher))
            yield carriers, matched, key
            yield matched, carriers, key

    def gathers(self, g: int) -> list[Ids]:
        return [codes for i in self._feeds[g] for codes in self._attractions[i].codes]

    def one_by_one(self, g: int) -> bool:
        return self.opening(g)

    def dependents(self, g: int) -> list[int]:
        """Return the classes whose required affinity pods of the class may satisfy."""
        fed = set(self._feeds[g])
        return [h for h, i in enumerate(self._attraction_of) if i in fed]

    def provides(self, g: int) -> bool:
        return bool(self._feeds[g])

    def keeping(self, g: int, n: int, counts: Ints) -> Bools:
        mask = np.ones(self.cluster.n_nodes, dtype=bool)
        for i in self._feeds[g]:
            a = self._attractions[i]
            for codes, count in zip(a.codes, a.counts, strict=True):
                if codes[n] >= 0 and not count[codes[n]]:
                    standing = [h for h, j in enumerate(self._attraction_of) if j == i]
                    if counts[standing][:, codes == codes[n]].any():
                        mask &= codes == codes[n]
        return mask

    def message(self, g: int, rejected: Bools) -> str:
        repelled = int(np.count_nonzero(rejected & self._repelled(g)))
        lacking = int(np.count_nonzero(rejected & self._lacks_provider(g)))
        parts = [f"anti-affinity on {repelled}"] if repelled else []
        parts += [f"no pod that its affinity asks for on {lacking}"] if lacking else []
        return ", ".join(parts) or "affinity or anti-affinity"

    # --- pods at rest, for plans --------------------------------------------------------------------------------------------

    @property
    def attractions(self) -> list[Attraction]:
        """The distinct sets of required affinity terms, with counts in the current state."""
        return self._attractions

    def attraction(self, g: int) -> int | None:
        """Return the index of the class's own terms in ``attractions``."""
        return self._attraction_of[g]

    def feeds(self, g: int) -> list[int]:
        """Return the indices of the ``attractions`` whose terms pods of the class match in full."""
        return self._feeds[g]

    def repelled(self, g: int, nodes: Ints) -> Bools:
        """Return bool[len(nodes)], whether each pod of class g on these nodes is rejected by anti-affinity there once it is removed."""
        mask = np.zeros(len(nodes), dtype=bool)
        for i in {*self._own[g], *self._matching[g]}:
            r = self._repulsions[i]
            domains = r.codes[nodes]
            own, both = i in self._own[g], int(i in self._own[g] and r.matches[g])
            hit = np.zeros(len(nodes), dtype=bool)
            if own:
                hit |= np.append(r.matching, 0)[domains] > both
            if r.matches[g]:
                hit |= np.append(r.owners, 0)[domains] > both
            mask |= hit & (domains >= 0)
        return mask

    # --- ordering -------------------------------------------------------------------------------------------------------

    def order_links(self) -> list[list[int]]:
        """Return groups of classes among which the order matters: the owners of each affinity with the classes it matches."""
        links: list[set[int]] = [set(np.flatnonzero(a.matches).tolist()) for a in self._attractions]
        for g, index in enumerate(self._attraction_of):
            if index is not None:
                links[index].add(g)
        return [sorted(link) for link in links]

    def opening(self, g: int) -> bool:
        """Return True if the class has affinity without any match yet, so that its next pod chooses the domain."""
        index = self._attraction_of[g]
        return index is not None and self._attractions[index].total == 0

    # --- encoding face ----------------------------------------------------------------------------------------------------

    def encode(self, encoding: PlacementModel) -> None:
        for r, owners in self.repulsions():
            if owners:
                with encoding.about(("among", r.term), sorted({*owners, *np.flatnonzero(r.matches).tolist()})):
                    encode_repulsion(encoding, r, owners)
        AffinityEncoder(encoding, self._attractions, self._attraction_of).run()

    def repulsions(self) -> Iterator[tuple[Repulsion, list[int]]]:
        """Yield each anti-affinity term with the classes that have it."""
        owners: list[list[int]] = [[] for _ in self._repulsions]
        for g, own in enumerate(self._own):
            for i in own:
                owners[i].append(g)
        yield from zip(self._repulsions, owners, strict=True)
