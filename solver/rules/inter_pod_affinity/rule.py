"""InterPodAffinity: required affinity and anti-affinity between pods.

Source: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go. The encoding of affinity is in a separate module.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kubestow.models.cluster.cluster import AffinityTerm, Cluster, Ids, Ints, RequiredAffinity, domain_sum
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rules.base import UNLIMITED_PODS, Rule, on_nodes
from kubestow.solver.rules.graph import strongly_connected
from kubestow.solver.rules.inter_pod_affinity.encoding import AffinityEncoder, Attraction, Repulsion, encode_repulsion

if TYPE_CHECKING:
    from kubestow.solver.cpsat.model import PlacementModel


class InterPodAffinity(Rule):
    """Required terms in both directions: affinity with bootstrap, anti-affinity with symmetry."""

    name = "InterPodAffinity"
    local = False

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

    def dependents(self, g: int) -> list[int]:
        """Return the classes whose required affinity pods of the class may satisfy."""
        fed = set(self._feeds[g])
        return [h for h, i in enumerate(self._attraction_of) if i in fed]

    def standing(self, g: int) -> list[int]:
        """Return the class, and those whose pods may depend on it directly or indirectly, ascending."""
        reached, waiting = {g}, [g]
        while waiting:
            more = set(self.dependents(waiting.pop())) - reached
            reached |= more
            waiting += sorted(more)
        return sorted(reached)

    def provides(self, g: int) -> bool:
        """Return True if pods with required affinity may depend on pods of the class."""
        return bool(self._feeds[g])

    def keeping(self, g: int, n: int, counts: Ints) -> Bools:
        """Return bool[N], the nodes where a pod of class g removed from node n must go to keep its dependents' affinity satisfied;
        ``counts`` int64[G, N] are the other pods."""
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

    # --- units of a gang --------------------------------------------------------------------------------------------------

    def kin(self, g: int, h: int) -> bool:
        """Return True if pods of the two classes have the same required affinity terms. Such kin open a domain together, as the pods of
        one Deployment do. Pods of different terms provide for each other."""
        index = self._attraction_of[h]
        return index is not None and index == self._attraction_of[g]

    def admits_unit(self, cells: Sequence[tuple[int, int, int]]) -> bool:
        """Return True if pods that bind as a unit, (class, node, pods) with each pair once, are accepted together in the state before the
        unit.

        Members with different terms provide for each other in any domain. If only kin or nobody would provide, the unit opens the
        domain. It may open at most one per set of terms and key, and none if a match exists already.
        """
        matching: dict[tuple[int, int], int] = {}
        owners: dict[tuple[int, int], int] = {}
        for g, n, k in cells:
            for table, indices in ((matching, self._matching[g]), (owners, self._own[g])):
                for i in indices:
                    where = i, int(self._repulsions[i].codes[n])
                    table[where] = table.get(where, 0) + k
        opened: dict[tuple[int, int], set[int]] = {}
        for g, n, _ in cells:
            for i in {*self._own[g], *self._matching[g]}:
                r = self._repulsions[i]
                where = i, int(r.codes[n])
                if where[1] < 0:
                    continue
                both = int(i in self._own[g] and r.matches[g])
                if i in self._own[g] and int(r.matching[where[1]]) + matching.get(where, 0) > both:
                    return False
                if r.matches[g] and int(r.owners[where[1]]) + owners.get(where, 0) > both:
                    return False
            index = self._attraction_of[g]
            if index is not None and not self._supported(index, g, n, cells, opened):
                return False
        return all(len(domains) <= 1 for domains in opened.values())

    def _supported(
        self, index: int, g: int, n: int, cells: Sequence[tuple[int, int, int]], opened: dict[tuple[int, int], set[int]]
    ) -> bool:
        a = self._attractions[index]
        for key_index, (codes, count) in enumerate(zip(a.codes, a.counts, strict=True)):
            d = int(codes[n])
            if d < 0:
                return False
            if count[d] > 0:
                continue
            near = [h for h, m, k in cells if a.matches[h] and codes[m] == d and (k > 1 or (h, m) != (g, n))]
            if any(not self.kin(g, h) for h in near):
                continue
            if a.total > 0 or not (near or a.matches[g]):
                return False
            opened.setdefault((index, key_index), set()).add(d)
        return True

    def vouch(self, classes: Sequence[int], nodes: Bools) -> list[tuple[int, int, Ints]]:
        """Count one more match for the terms of some classes in every domain of some nodes (bool[N]), if one of the classes matches them.
        This simulates pods that arrive later. Return the argument of :meth:`unvouch`."""
        done = []
        for i in sorted({i for g in classes if (i := self._attraction_of[g]) is not None}):
            a = self._attractions[i]
            if a.matches[list(classes)].any():
                a.total += 1
                for key_index, codes in enumerate(a.codes):
                    domains = np.unique(codes[nodes & (codes >= 0)]).astype(np.int64)
                    a.counts[key_index][domains] += 1
                    done.append((i, key_index, domains))
        return done

    def unvouch(self, vouched: Sequence[tuple[int, int, Ints]]) -> None:
        """Undo the counts of :meth:`vouch`."""
        for i, key_index, domains in vouched:
            self._attractions[i].counts[key_index][domains] -= 1
            self._attractions[i].total -= int(key_index == 0)

    def cycles(self, classes: Sequence[int]) -> list[list[int]]:
        """Return groups of the given classes whose pods need each other in a cycle."""
        needs: dict[int, list[int]] = {}
        for g in classes:
            index = self._attraction_of[g]
            matches = self._attractions[index].matches if index is not None else None
            needs[g] = [] if matches is None else [h for h in classes if h != g and matches[h]]
        return [sorted(component) for component in strongly_connected(needs) if len(component) > 1]

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

    def openers(self, unplaced: dict[int, list[int]], rng: random.Random | None = None) -> list[tuple[int, int]]:
        """Return (class, node) pairs to bind first: one member for each group with an open bootstrap, in a domain that no other class
        provides for, if possible. An opener that would end another group's bootstrap comes after that group's opener."""
        openers: list[tuple[int, int, int]] = []
        for i, a in enumerate(self._attractions):
            members = [
                g for g in unplaced
                if self._attraction_of[g] == i and unplaced[g] and (own := self.cluster.classes[g].affinity) is not None and own.itself
            ]  # fmt: skip
            if a.total or not members:
                continue
            cells = [(g, n) for g in members for n in unplaced[g]]
            if rng is not None:
                rng.shuffle(cells)
            others = [n for h, nodes in unplaced.items() if a.matches[h] and self._attraction_of[h] != i for n in nodes]
            provided = [
                np.bincount(codes[others][codes[others] >= 0], minlength=size) for codes, size in zip(a.codes, a.sizes, strict=True)
            ]
            alone = [
                (g, n) for g, n in cells if any(count[codes[n]] == 0 for codes, count in zip(a.codes, provided, strict=True) if len(count))
            ]
            g, n = (alone or cells)[0]
            openers.append((i, g, n))
        if rng is not None:
            rng.shuffle(openers)
        else:
            # An opener that another group's terms match comes after that group's own opener.
            openers.sort(key=lambda f: sum(bool(self._attractions[i].matches[f[1]]) for i, _, _ in openers if i != f[0]))
        return [(g, n) for _, g, n in openers]

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
