"""InterPodAffinity: required affinity and anti-affinity between pods.

Source: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go. The encoding of affinity is that of foundedness in answer-set
programming: a pod needs a provider that can be bound before it (Lin and Zhao, ASSAT, doi:10.1016/j.artint.2004.04.004); where
providers need each other in a cycle, ranks order them.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from models.cluster import Affinity, Cluster, Ids, Ints, Term, domain_sum
from models.selectors import Bools
from solver.rules.base import PLENTY, Rule

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from solver.encoding import Encoding


@dataclass
class _Repulsion:
    """One distinct anti-affinity term: counts per domain of the pods it matches and of the pods that carry it."""

    term: Term
    codes: Ids
    size: int
    matching: Ints
    owners: Ints
    matches: Bools  # [G]: the pending classes it matches


@dataclass
class _Attraction:
    """One distinct set of required affinity terms: counts of full matches per domain of each key, and over all nodes with any key."""

    full: int
    keys: tuple[str, ...]
    codes: list[Ids]
    sizes: list[int]
    counts: list[Ints]
    any_key: Bools  # [N]
    total: int
    matches: Bools  # [G]

    @property
    def topic(self) -> Affinity:
        """Of all classes that have these terms, whether they match them or not."""
        return Affinity(self.full, self.keys, False)

    def add(self, n: int, k: int) -> None:
        if self.any_key[n]:
            self.total += k
            for codes, count in zip(self.codes, self.counts, strict=True):
                if codes[n] >= 0:
                    count[codes[n]] += k


class InterPodAffinity(Rule):
    """Required terms in both directions: affinity with bootstrap, anti-affinity with symmetry."""

    name = "InterPodAffinity"
    local = False

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._repulsions: list[_Repulsion] = []
        self._attractions: list[_Attraction] = []
        ids: dict[Term, int] = {}
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
        self._never = [self._repelled(g) | self._unreachable(g) for g in range(cluster.n_classes)]

    def _repulsion(self, ids: dict[Term, int], term: Term) -> int:
        if term not in ids:
            ids[term] = len(self._repulsions)
            codes, size = self.cluster.domains(term.key)
            self._repulsions.append(
                _Repulsion(
                    term, codes, size, domain_sum(codes, size, self.cluster.fixed_count(term.matcher)),
                    np.zeros(size, dtype=np.int64), self.cluster.matches(term.matcher),
                )
            )  # fmt: skip
        return ids[term]

    def _attraction(self, groups: dict[tuple[int, tuple[str, ...]], int], affinity: Affinity) -> int:
        key = (affinity.full, affinity.keys)
        if key not in groups:
            groups[key] = len(self._attractions)
            per_node = self.cluster.fixed_count(affinity.full)
            domains = [self.cluster.domains(k) for k in affinity.keys]
            any_key = np.zeros(self.cluster.n_nodes, dtype=bool)
            for codes, _ in domains:
                any_key |= codes >= 0
            self._attractions.append(
                _Attraction(
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
            mask |= _in_domain(r.codes, r.matching > 0)
        for i in self._matching[g]:
            r = self._repulsions[i]
            mask |= _in_domain(r.codes, r.owners > 0)
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
                lacks |= ~_in_domain(codes, count > 0)
        return lacks

    def rejects(self, g: int) -> Bools:
        return self._repelled(g) | self._lacks_provider(g)

    def never(self, g: int) -> Bools:
        return self._never[g]

    def bars(self, g: int) -> list[tuple[Hashable, Bools]]:
        found: list[tuple[Hashable, Bools]] = []
        for kind, indices in (("running", self._own[g]), ("symmetric", self._matching[g])):
            for i in indices:
                r = self._repulsions[i]
                found.append(((kind, r.term), _in_domain(r.codes, (r.matching if kind == "running" else r.owners) > 0)))
        index = self._attraction_of[g]
        if index is not None:
            found.append((self._attractions[index].topic, self._unreachable(g)))
        return found

    def closed(self, g: int) -> Bools:
        return self._never[g] | self._repelled(g)

    def _unreachable(self, g: int) -> Bools:
        """Nodes that lack a key of the class's affinity, or all of them where nothing could ever match."""
        index, affinity = self._attraction_of[g], self.cluster.classes[g].affinity
        if index is None or affinity is None:
            return np.zeros(self.cluster.n_nodes, dtype=bool)
        a = self._attractions[index]
        others = a.matches.copy()
        others[g] = False
        lacks = ~self.cluster.nodes.with_keys(a.keys)
        if not others.any() and (a.total > 0 or not affinity.itself):
            for codes, count in zip(a.codes, a.counts, strict=True):
                lacks |= ~_in_domain(codes, count > 0)
        return lacks

    def most(self, g: int) -> Ints:
        most = np.full(self.cluster.n_nodes, PLENTY)
        for i in self._own[g]:
            if self._repulsions[i].matches[g]:
                most[self._repulsions[i].codes >= 0] = 1
        return most

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

    def remove(self, g: int, n: int, k: int = 1) -> None:
        self.place(g, n, -k)

    def touches(self, g: int) -> bool:
        """Whether placing pods of the class changes this rule's verdict on other nodes (or on other pods of it)."""
        return bool(self._own[g] or self._matching[g] or self._feeds[g])

    def concerned(self, g: int) -> bool:
        return self.touches(g) or self._attraction_of[g] is not None

    def exclusive(self, g: int) -> list[tuple[Ids, int]]:
        """(codes int32[N], domains) of the keys over which pods of the class exclude each other."""
        return [(r.codes, r.size) for i in self._own[g] if (r := self._repulsions[i]).matches[g]]

    def dependents(self, g: int) -> list[int]:
        """The classes whose required affinity pods of the class may satisfy."""
        fed = set(self._feeds[g])
        return [h for h, i in enumerate(self._attraction_of) if i in fed]

    def standing(self, g: int) -> list[int]:
        """The class and those whose pods may stand on it, directly or not, ascending."""
        found, waiting = {g}, [g]
        while waiting:
            more = set(self.dependents(waiting.pop())) - found
            found |= more
            waiting += sorted(more)
        return sorted(found)

    def provides(self, g: int) -> bool:
        """Whether pods with required affinity may stand on pods of the class."""
        return bool(self._feeds[g])

    def message(self, g: int, rejected: Bools) -> str:
        repelled = int(np.count_nonzero(rejected & self._repelled(g)))
        lacking = int(np.count_nonzero(rejected & self._lacks_provider(g)))
        parts = [f"anti-affinity on {repelled}"] if repelled else []
        parts += [f"no pod that its affinity asks for on {lacking}"] if lacking else []
        return ", ".join(parts) or "affinity or anti-affinity"

    # --- units of a gang --------------------------------------------------------------------------------------------------

    def mates(self, g: int, h: int) -> bool:
        """Whether pods of class h have required affinity themselves and pods of class g match all its terms, or have the same: then two
        of them that stand on each other open a domain, and do not merely provide for each other."""
        index = self._attraction_of[h]
        return index is not None and (index == self._attraction_of[g] or bool(self._attractions[index].matches[g]))

    def admits_unit(self, cells: Sequence[tuple[int, int, int]]) -> bool:
        """Whether pods that bind as a unit, (class, node, pods) with each pair once, are accepted with all of them present; the state is
        that before the unit. A unit opens at most one domain per set of terms and key, and none where a match exists already."""
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
            if any(not self.mates(g, h) for h in near):
                continue
            if a.total > 0 or not (near or a.matches[g]):
                return False
            opened.setdefault((index, key_index), set()).add(d)
        return True

    def vouch(self, classes: Sequence[int], nodes: Bools) -> list[tuple[int, int, Ints]]:
        """Count one match more for the terms of some classes in every domain of some nodes (bool[N]), wherever one of the classes matches
        them: as if pods that come later were there. Gives what :meth:`unvouch` takes back."""
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
        """Take back what :meth:`vouch` counted."""
        for i, key_index, domains in vouched:
            self._attractions[i].counts[key_index][domains] -= 1
            self._attractions[i].total -= int(key_index == 0)

    def cycles(self, classes: Sequence[int]) -> list[list[int]]:
        """Those of some classes whose pods need each other in a cycle."""
        needs: dict[int, list[int]] = {}
        for g in classes:
            index = self._attraction_of[g]
            matches = self._attractions[index].matches if index is not None else None
            needs[g] = [] if matches is None else [h for h in classes if h != g and matches[h]]
        return [sorted(found) for found in strongly_connected(needs) if len(found) > 1]

    # --- what ordering asks ---------------------------------------------------------------------------------------------

    def order_links(self) -> list[list[int]]:
        """Groups of classes whose order matters to each other: the owners of each affinity with those that it matches."""
        links: list[set[int]] = [set(np.flatnonzero(a.matches).tolist()) for a in self._attractions]
        for g, index in enumerate(self._attraction_of):
            if index is not None:
                links[index].add(g)
        return [sorted(link) for link in links]

    def opening(self, g: int) -> bool:
        """Whether the class has affinity and nothing matches it yet, so that its next pod decides for the others."""
        index = self._attraction_of[g]
        return index is not None and self._attractions[index].total == 0

    def openers(self, left: dict[int, list[int]], rng: random.Random | None = None) -> list[tuple[int, int]]:
        """(class, node) pairs to bind first: for each group whose bootstrap is open, one member on a node of a domain that nobody else
        provides for (any, if there is none), such that an opener that would end another's bootstrap comes after it."""
        found: list[tuple[int, int, int]] = []
        for i, a in enumerate(self._attractions):
            members = [
                g for g in left
                if self._attraction_of[g] == i and left[g] and (own := self.cluster.classes[g].affinity) is not None and own.itself
            ]  # fmt: skip
            if a.total or not members:
                continue
            cells = [(g, n) for g in members for n in left[g]]
            if rng is not None:
                rng.shuffle(cells)
            others = [n for h, nodes in left.items() if a.matches[h] and self._attraction_of[h] != i for n in nodes]
            provided = [
                np.bincount(codes[others][codes[others] >= 0], minlength=size) for codes, size in zip(a.codes, a.sizes, strict=True)
            ]
            alone = [
                (g, n) for g, n in cells if any(count[codes[n]] == 0 for codes, count in zip(a.codes, provided, strict=True) if len(count))
            ]
            g, n = (alone or cells)[0]
            found.append((i, g, n))
        if rng is not None:
            rng.shuffle(found)
        else:
            # An opener that another group's terms match goes after that group's own opener.
            found.sort(key=lambda f: sum(bool(self._attractions[i].matches[f[1]]) for i, _, _ in found if i != f[0]))
        return [(g, n) for _, g, n in found]

    # --- encoding face ----------------------------------------------------------------------------------------------------

    def encode(self, encoding: Encoding) -> None:
        for r, owners in zip(self._repulsions, self._owners(), strict=True):
            if owners:
                with encoding.about(("among", r.term), sorted({*owners, *np.flatnonzero(r.matches).tolist()})):
                    self._encode_repulsion(encoding, r, owners)
        _AffinityEncoder(self, encoding).run()

    def _owners(self) -> list[list[int]]:
        owners: list[list[int]] = [[] for _ in self._repulsions]
        for g, own in enumerate(self._own):
            for i in own:
                owners[i].append(g)
        return owners

    def _encode_repulsion(self, encoding: Encoding, r: _Repulsion, owners: list[int]) -> None:
        """In each domain at most one of: a single pod that carries the term and matches it, any pods that carry it only, any pods
        that match it only."""
        both = [g for g in owners if r.matches[g]]
        carriers = [g for g in owners if not r.matches[g]]
        targets = [int(g) for g in np.flatnonzero(r.matches) if g not in owners]
        members = self.cluster.members(r.term.key)
        for d in encoding.domains([*owners, *targets], r.codes):
            nodes = members[d]
            single = [v for g in both for v in encoding.variables(g, nodes)]
            sides = [encoding.any_of(encoding.cells(group, nodes)) for group in (carriers, targets)]
            literals = [side for side in sides if side is not None]
            if not single and len(literals) < 2:
                continue
            encoding.model.add(encoding.sum([*single, *literals]) <= 1)


def _in_domain(codes: Ids, flags: Bools) -> Bools:
    """bool[N]: nodes whose domain is flagged; nodes without the key never are."""
    return np.append(flags, False)[codes]


class _AffinityEncoder:
    """Required affinity: every class in a domain has an earlier provider there, an existing match, or opens the domain."""

    def __init__(self, rule: InterPodAffinity, encoding: Encoding) -> None:
        self._e = encoding
        self._rule = rule
        self._cluster = rule.cluster
        self._attractions = rule._attractions
        self._counts = [a.counts for a in rule._attractions]
        self._totals = [a.total for a in rule._attractions]
        self._of = [i if not encoding.partial or len(encoding.nodes_of(g)) else None for g, i in enumerate(rule._attraction_of)]
        self._owners: dict[int, list[int]] = {}
        for g, i in enumerate(self._of):
            if i is not None:
                self._owners.setdefault(i, []).append(g)
        self._closed = {i for i in self._owners if self._totals[i] == 0 and self._among_themselves(i)}
        self._component = self._components()
        self._opens: dict[tuple[int, tuple[int, ...]], cp_model.IntVar] = {}
        self._together: set[tuple[int, tuple[int, ...]]] = set()  # of ``_opens``: by several classes of a gang at once
        self._cells: dict[int, dict[tuple[int, ...], list[int]]] = {}
        self._rank: dict[tuple[int, tuple[int, ...]], cp_model.IntVar] = {}
        self._active: dict[tuple[int, tuple[int, ...]], cp_model.IntVar] = {}
        self._moment: dict[tuple[int, tuple[int, ...]], cp_model.IntVar] = {}  # of ``_together``: the rank of the pods that open
        self._joint: dict[tuple[int, tuple[int, ...], int], cp_model.IntVar] = {}  # of ``_together``: the domain of one key is opened

    def run(self) -> None:
        self._bootstrap()
        for closed in sorted(self._closed):
            with self._about(closed):
                self._one_domain(closed)
        for g, i in enumerate(self._of):
            if i is not None and i not in self._closed:
                with self._about(i):
                    if self._component[g] is None:
                        self._acyclic(g, i)
                    else:
                        self._ranked(g, i)

    def _about(self, i: int) -> AbstractContextManager[None]:
        return self._e.about(self._attractions[i].topic, self._owners[i])

    def _among_themselves(self, i: int) -> bool:
        """Whether only classes that have these terms match them, and some do: then all their pods are where the first one is."""
        providers = [int(h) for h in np.flatnonzero(self._attractions[i].matches) if len(self._e.nodes_of(int(h)))]
        return bool(providers) and all(self._of[h] == i for h in providers)

    def _one_domain(self, i: int) -> None:
        """Of each key at most one domain, which a class that matches the terms opens."""
        a = self._attractions[i]
        providers = np.flatnonzero(a.matches).tolist()
        for key, codes in zip(a.keys, a.codes, strict=True):
            members, used = self._cluster.members(key), []
            for d in self._e.domains(self._owners[i], codes):
                here = self._e.any_of(self._e.cells(providers, members[d]))
                cells = [(g, self._e.variables(g, members[d])) for g in self._owners[i]]
                if here is None:
                    self._e.model.add(self._e.sum([v for _, mine in cells for v in mine]) == 0)
                    continue
                used.append(here)
                for g, mine in cells:
                    if mine:
                        self._e.model.add(self._e.sum(mine) <= self._e.fits[g] * here)
            self._e.model.add_at_most_one(used)

    # Which classes need each other in a cycle. None: on no cycle with another class.
    def _components(self) -> list[tuple[int, ...] | None]:
        needs = {g: [int(h) for h in np.flatnonzero(self._attractions[i].matches) if h != g and self._of[h] is not None]
                 for g, i in enumerate(self._of) if i is not None and i not in self._closed}  # fmt: skip
        found: list[tuple[int, ...] | None] = [None] * self._cluster.n_classes
        for members in strongly_connected(needs):
            if len(members) > 1:
                for g in members:
                    found[g] = tuple(sorted(members))
        return found

    def _bootstrap(self) -> None:
        """open[g, cell]: the first pod of g opens its domains. At most one per set of terms, none where a match exists, and not two
        openers of which either would have ended the other's bootstrap."""
        per_group: dict[int, list[cp_model.IntVar]] = {}
        openers: list[int] = []
        for g, i in enumerate(self._of):
            affinity = self._cluster.classes[g].affinity
            if i is None or affinity is None or self._totals[i] > 0 or i in self._closed:
                continue
            with self._about(i):
                if affinity.itself:
                    openers.append(g)
                    self._open(g, i, per_group, together=False)
                elif self._has_mates(g, i):
                    self._open(g, i, per_group, together=True)
        for i, literals in per_group.items():
            with self._about(i):
                self._e.model.add_at_most_one(literals)
        for a, g in enumerate(openers):
            for h in openers[a + 1 :]:
                self._exclude(g, h)

    def _gangmates(self, g: int, h: int) -> bool:
        """Whether pods of the two classes may bind as a unit."""
        gang = self._cluster.classes[g].gang
        return gang is not None and gang == self._cluster.classes[h].gang

    def _has_mates(self, g: int, i: int) -> bool:
        """Whether classes of the same gang match its terms and are matched by its: together they may open a domain."""
        return any(self._gangmates(g, int(h)) and self._rule.mates(g, int(h)) for h in np.flatnonzero(self._attractions[i].matches))

    def _open(self, g: int, i: int, per_group: dict[int, list[cp_model.IntVar]], *, together: bool) -> None:
        """A literal for each cell that the class may open; ``together``: with mates of its gang."""
        for cell, nodes in self._cells_of(g, self._attractions[i]).items():
            present = self._e.any_of(self._e.cells([g], np.array(nodes)))
            if present is None:
                continue
            literal = self._e.model.new_bool_var("")
            self._e.model.add_implication(literal, present)
            self._opens[g, cell] = literal
            per_group.setdefault(i, []).append(literal)
            if together:
                self._together.add((g, cell))

    def _exclude(self, g: int, h: int) -> None:
        """Openers of different groups that match each other's terms, each on a node that the other's terms see."""
        i, j = self._of[g], self._of[h]
        if i is None or j is None or i == j:
            return
        first, second = self._attractions[i], self._attractions[j]
        if not (first.matches[h] and second.matches[g]):
            return
        seen_by_second = [lit for (c, cell), lit in self._opens.items() if c == g and self._sees(second, self._nodes(g, first, cell))]
        seen_by_first = [lit for (c, cell), lit in self._opens.items() if c == h and self._sees(first, self._nodes(h, second, cell))]
        if seen_by_second and seen_by_first:
            one, other = self._e.any_of(seen_by_second), self._e.any_of(seen_by_first)
            if one is not None and other is not None:
                self._e.model.add_bool_or([~one, ~other])

    def _nodes(self, g: int, attraction: _Attraction, cell: tuple[int, ...]) -> list[int]:
        return self._cells_of(g, attraction)[cell]

    @staticmethod
    def _sees(attraction: _Attraction, nodes: list[int]) -> bool:
        """Whether a match on every one of these nodes would end the group's bootstrap (nodes of a cell may differ in other keys)."""
        return bool(attraction.any_key[nodes].all())

    def _cells_of(self, g: int, attraction: _Attraction) -> dict[tuple[int, ...], list[int]]:
        """The class's possible nodes by their domains under the keys of its terms."""
        if g not in self._cells:
            cells: dict[tuple[int, ...], list[int]] = {}
            for n in self._e.nodes_of(g):
                cells.setdefault(tuple(int(codes[n]) for codes in attraction.codes), []).append(int(n))
            self._cells[g] = cells
        return self._cells[g]

    def _open_in(self, i: int, key_index: int, domain: int) -> list[cp_model.IntVar]:
        """Literals that say that a class with these terms opens the domain, without others of its gang."""
        return [
            self._opens[g, cell]
            for g in self._owners[i]
            for cell in self._cells.get(g, {})
            if cell[key_index] == domain and (g, cell) in self._opens and (g, cell) not in self._together
        ]

    def _acyclic(self, g: int, i: int) -> None:
        """The class in a domain ⇒ another class that matches all its terms is there too (it can go first), or the domain is opened."""
        a = self._attractions[i]
        providers = [int(h) for h in np.flatnonzero(a.matches) if h != g]
        for key_index, codes in enumerate(a.codes):
            for d in np.unique(codes[self._e.nodes_of(g)]):
                if d < 0 or self._counts[i][key_index][d] > 0:
                    continue
                nodes = self._cluster.members(a.keys[key_index])[d]
                present = self._e.any_of(self._e.cells([g], nodes))
                if present is None:
                    continue
                support = self._e.cells(providers, nodes)
                provided = self._e.any_of(support)
                literals = [provided] if provided is not None else []
                self._e.model.add_bool_or([~present, *literals, *self._open_in(i, key_index, int(d))])

    # --- cycles -----------------------------------------------------------------------------------------------------------

    def _units(self, members: tuple[int, ...]) -> list[tuple[int, tuple[int, ...]]]:
        """(class, cell) pairs of a cycle; cells are taken over the keys of the whole cycle."""
        keys = sorted({k for h in members if (j := self._of[h]) is not None for k in self._attractions[j].keys})
        columns = [self._cluster.domains(k)[0] for k in keys]
        units: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        for h in members:
            for n in self._e.nodes_of(h):
                units.setdefault((h, tuple(int(c[n]) for c in columns)), []).append(int(n))
        for unit, nodes in units.items():
            if unit not in self._rank:
                present = self._e.any_of(self._e.cells([unit[0]], np.array(nodes)))
                assert present is not None
                self._active[unit] = present
                self._rank[unit] = self._e.model.new_int_var(0, len(units), "")
        self._keys = keys
        return list(units)

    def _ranked(self, g: int, i: int) -> None:
        """On a cycle, a provider must carry a smaller rank than those it provides for, or the same where a gang binds them as a unit. A
        mate of the same gang is a provider if it is bound before; else both are of one unit, which has to open the domain."""
        members = self._component[g]
        assert members is not None
        a = self._attractions[i]
        units = self._units(members)
        outside = [int(h) for h in np.flatnonzero(a.matches) if h not in members]
        for unit in [u for u in units if u[0] == g]:
            present = self._active[unit]
            for key_index, key in enumerate(a.keys):
                position = self._keys.index(key)
                d = unit[1][position]
                if d < 0 or self._counts[i][key_index][d] > 0:
                    continue
                support = self._open_in(i, key_index, d) + self._joined(unit, i, key_index, units)
                provided = self._e.any_of(self._e.cells(outside, self._cluster.members(key)[d]))
                if provided is not None:
                    support.append(provided)
                for other in units:
                    if other != unit and a.matches[other[0]] and other[1][position] == d:
                        literal = self._e.model.new_bool_var("")
                        self._e.model.add_implication(literal, self._active[other])
                        before = 0 if self._gangmates(g, other[0]) and not self._rule.mates(g, other[0]) else 1
                        self._e.model.add(self._rank[other] + before <= self._rank[unit]).only_enforce_if(literal)
                        support.append(literal)
                self._e.model.add_bool_or([~present, *support])

    def _joined(
        self, unit: tuple[int, tuple[int, ...]], i: int, key_index: int, units: list[tuple[int, tuple[int, ...]]]
    ) -> list[cp_model.IntVar]:
        """Literals that say that the unit's domain is opened by several classes of a gang at once, and that it is not bound before."""
        model, found = self._e.model, []
        d = unit[1][self._keys.index(self._attractions[i].keys[key_index])]
        for g in self._owners[i]:
            for cell in self._cells.get(g, {}):
                if cell[key_index] == d and (g, cell) in self._together:
                    opened = self._opened(g, cell, i, key_index, units)
                    literal = model.new_bool_var("")
                    model.add_implication(literal, opened)
                    model.add(self._moment[g, cell] <= self._rank[unit]).only_enforce_if(literal)
                    found.append(literal)
        return found

    def _opened(self, g: int, cell: tuple[int, ...], i: int, key_index: int, units: list[tuple[int, tuple[int, ...]]]) -> cp_model.IntVar:
        """Whether the class opens the cell's domain of one key together with a mate that is there by that moment."""
        found = self._joint.get((g, cell, key_index))
        if found is not None:
            return found
        model, a = self._e.model, self._attractions[i]
        found = self._joint[g, cell, key_index] = model.new_bool_var("")
        model.add_implication(found, self._opens[g, cell])
        if (g, cell) not in self._moment:
            self._moment[g, cell] = model.new_int_var(0, len(units), "")
        position = self._keys.index(a.keys[key_index])
        near = []
        for other in units:
            h, where = other
            if a.matches[h] and where[position] == cell[key_index] and self._gangmates(g, h) and self._rule.mates(g, h):
                literal = model.new_bool_var("")
                model.add_implication(literal, self._active[other])
                model.add(self._rank[other] <= self._moment[g, cell]).only_enforce_if(literal)
                near.append(literal)
        model.add_bool_or([~found, *near])
        return found


def strongly_connected(graph: dict[int, list[int]]) -> list[list[int]]:
    """Strongly connected components (Tarjan 1972, doi:10.1137/0201010), without recursion."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for root in graph:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(graph[root]))]
        while work:
            node, edges = work[-1]
            advanced = False
            for target in edges:
                if target not in graph:
                    continue
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(graph[target])))
                    advanced = True
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            if advanced:
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == index[node]:
                component = []
                while True:
                    member = stack.pop()
                    on_stack.discard(member)
                    component.append(member)
                    if member == node:
                        break
                found.append(component)
    return found
