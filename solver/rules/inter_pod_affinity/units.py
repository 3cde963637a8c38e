"""InterPodAffinity for pods that bind together, and the first pods of domains."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.inter_pod_affinity.encoding import Attraction, Repulsion
from kubestow.solver.runtime.graph import strongly_connected


class AffinityUnits(Rule):
    """The part of InterPodAffinity about units of a gang and about openers: pods that bind before any match of their terms exists."""

    _repulsions: list[Repulsion]
    _attractions: list[Attraction]
    _own: list[list[int]]
    _matching: list[list[int]]
    _attraction_of: list[int | None]

    def kin(self, g: int, h: int) -> bool:
        """Return True if pods of the two classes have the same required affinity terms. Such kin open a domain together, as the pods of
        one Deployment do. Pods of different terms provide for each other."""
        index = self._attraction_of[h]
        return index is not None and index == self._attraction_of[g]

    def binds_together(self, g: int) -> bool:
        return self.cluster.classes[g].affinity is not None

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
