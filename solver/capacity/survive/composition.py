"""Certificates of single failures, put together: where they do not touch each other, they are one of all of them at once.

What one failure's pods need of the rules, and where they go, was found with all that runs on the nodes of the other failures still there.
It holds without them too if

* none of them goes to a node of another failure,
* no selector of their affinity, anti-affinity or spread constraints matches anything that runs on the nodes of another failure,
  which is also all that comes back after it; of kinds of pods where one does, each is put to the test of these rules again,
* the nodes that several of them go to have room for all,
* and nothing else ties them: volumes, host ports and NUMA zones on one node, a least number of domains.

A domain that vanishes with its last node can only raise the minimum of a spread constraint then. Bound failure after failure, each pod
passes its filters as it did alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from typing import Final

import numpy as np

from kubestow.models.cluster.cluster import Ints, PodClass
from kubestow.models.documents.placement import Assignment
from kubestow.models.kube.selectors import Bools
from kubestow.solver.capacity.survive.decide import Verdict
from kubestow.solver.capacity.survive.instance import Instance
from kubestow.solver.rules.eligibility import demand_with_slots, room_with_slots
from kubestow.solver.rules.inter_pod_affinity import InterPodAffinity
from kubestow.solver.rules.pod_topology_spread import PodTopologySpread

#: Choices of placements that are looked at for one failure, and how many of them are put to the test of rules.
WAYS: Final = 8
TESTS: Final = 2


@dataclass(frozen=True, slots=True)
class _Part:
    """What comes back after a failure by itself. ``cells``: class and node of each, in bind order; ``takes``: by node that pods go to,
    resources and (last) pod slots, int64[R + 1]; ``ported``, ``zoned``: nodes that pods with host ports, with containers that get zones
    go to; ``volumes``: whether any has one."""

    assignments: list[Assignment]
    cells: list[tuple[int, int]]
    classes: frozenset[int]
    takes: dict[int, Ints]
    ported: frozenset[int]
    zoned: frozenset[int]
    volumes: bool


class Composition:
    """``nodes``: those of each domain; ``verdicts``: of each failing by itself, as many as there are placements at hand."""

    def __init__(
        self, instance: Instance, nodes: Mapping[str, Sequence[str]], verdicts: Mapping[str, Sequence[Verdict]], keys: Sequence[str]
    ) -> None:
        cluster = instance.cluster
        self._instance, self._domains = instance, nodes
        self._room = room_with_slots(cluster)
        self._nodes = {name: instance.nodes(members).tolist() for name, members in nodes.items()}
        self._index = {name: n for n, name in enumerate(cluster.nodes.names)}
        self._class = {keys[i]: g for g, cls in enumerate(cluster.classes) for i in cls.pods}
        self._asks = demand_with_slots(cluster)
        self._parts: dict[str, list[_Part]] = {}
        for name, listed in verdicts.items():
            classes = {g for n in self._nodes[name] for g in instance.returning[n]}
            if instance.derivable(self._nodes[name]) and not any(_ties(cluster.classes[g]) for g in classes):
                parts = [self._part(verdict, classes) for verdict in listed if verdict.survives]
                self._parts |= {name: parts} if parts else {}
        self._number = {name: i for i, name in enumerate(self._parts)}
        self._read(instance)

    def _part(self, verdict: Verdict, classes: Collection[int]) -> _Part:
        of = self._instance.cluster.classes
        cells = [(self._class[a.pod], self._index[a.node]) for a in verdict.assignments]
        takes: dict[int, Ints] = {}
        for g, n in cells:
            takes[n] = takes[n] + self._asks[g] if n in takes else self._asks[g]
        return _Part(
            verdict.assignments,
            cells,
            frozenset(classes),
            takes,
            frozenset(n for g, n in cells if of[g].ports),
            frozenset(n for g, n in cells if of[g].containers is not None),
            any(of[g].claims for g in classes),
        )

    def _read(self, instance: Instance) -> None:
        """What the selectors of each class match (``_reads``: bool[G, P]), what runs on the nodes of each failure (``_runs``: bool[D, P]),
        and which failures have to do with each other (``_linked``: bool[D, D])."""
        cluster = instance.cluster
        self._reads = np.zeros((cluster.n_classes, len(cluster.matchers.profiles)), dtype=bool)
        for g, cls in enumerate(cluster.classes):
            for matcher in _selectors(cls):
                self._reads[g] |= cluster.matchers.hits(matcher)
        self._runs = np.zeros((len(self._parts), len(cluster.matchers.profiles)), dtype=bool)
        reads = np.zeros_like(self._runs)
        per_node = cluster._placed.by_node()
        for name, i in self._number.items():
            for n in self._nodes[name]:
                self._runs[i, per_node[n]] = True
            reads[i] = self._reads[sorted(self._parts[name][0].classes)].any(axis=0)
        links = (reads.astype(np.float32) @ self._runs.astype(np.float32).T) > 0
        self._linked: Bools = np.asarray(links | links.T, dtype=bool)

    @cached_property
    def names(self) -> list[str]:
        """Return the failures that are certified by themselves, in the order of :attr:`free`."""
        return list(self._parts)

    @cached_property
    def free(self) -> Bools:
        """Return bool[D, D]: the pairs whose first certificates hold together as they are, since nothing of one has to do with the other.
        All pairs at once, node by node: there may be millions of them."""
        parts = [self._parts[name][0] for name in self.names]
        number = {n: i for name, i in self._number.items() for n in self._nodes[name]}
        apart = ~self._linked
        volumes = np.array([part.volumes for part in parts], dtype=bool)
        apart &= ~(volumes[:, None] & volumes[None, :])
        there: dict[int, list[int]] = {}
        for i, part in enumerate(parts):
            for n in part.takes:
                there.setdefault(n, []).append(i)
                if n in number:
                    apart[i, number[n]] = apart[number[n], i] = False
        for n, listed in there.items():
            takes = np.array([parts[i].takes[n] for i in listed])
            total = takes[:, None] + takes[None, :]
            clash = ((total > self._room[n]) & (total > 0)).any(axis=2)
            for on in ("ported", "zoned"):
                also = np.array([n in getattr(parts[i], on) for i in listed], dtype=bool)
                clash |= also[:, None] & also[None, :]
            apart[np.ix_(listed, listed)] &= ~clash
        np.fill_diagonal(apart, False)
        return apart

    def certificate(self, failed: Sequence[str]) -> Verdict | None:
        """Return the certificate of failures at once, None where theirs cannot be put together."""
        if any(name not in self._parts for name in failed):
            return None
        if len(failed) == 2 and self.free[self._number[failed[0]], self._number[failed[1]]]:
            return _together([self._parts[name][0] for name in failed])
        gone = {n for name in failed for n in self._nodes[name]}
        choices = [[part for part in self._parts[name] if gone.isdisjoint(part.takes)] for name in failed]
        numbers = [self._number[name] for name in failed]
        tied = any(self._linked[numbers[at], numbers[at + 1 :]].any() for at in range(len(numbers)))
        asked = 0
        for parts in islice(product(*choices), WAYS):
            if not self._have_room(parts):
                continue
            asked += 1
            if not tied or self._holds(failed, numbers, parts):
                return _together(parts)
            if asked == TESTS:
                break
        return None

    def _have_room(self, parts: Sequence[_Part]) -> bool:
        """Return whether nodes have room for all, and nothing on them or in their volumes ties them."""
        total: dict[int, Ints] = {}
        for at, part in enumerate(parts):
            for other in parts[at + 1 :]:
                if (part.volumes and other.volumes) or part.ported & other.ported or part.zoned & other.zoned:
                    return False
            for n, amounts in part.takes.items():
                if n not in total:
                    total[n] = amounts
                else:
                    total[n] = total[n] + amounts
                    if ((total[n] > self._room[n]) & (total[n] > 0)).any():
                        return False
        return True

    def _holds(self, failed: Sequence[str], numbers: Sequence[int], parts: Sequence[_Part]) -> bool:
        """Return whether affinity, anti-affinity and spread accept the pods one after the other, of those kinds that any selector ties to
        another failure, and of those that are tied to them."""
        classes = {g for part in parts for g in part.classes}
        profile = self._instance.cluster.profile
        tied: set[int] = set()
        for i, part in zip(numbers, parts, strict=True):
            others = self._runs[[k for k in numbers if k != i]].any(axis=0)
            tied.update(g for g in part.classes if (self._reads[g] & others).any())
        reached = sorted(tied)
        while reached:
            g = reached.pop()
            more = [h for h in classes - tied if self._reads[g, profile[h]] or self._reads[h, profile[g]]]
            tied.update(more)
            reached += more
        cluster = self._instance.left([node for name in failed for node in self._domains[name]], tied)
        place = {g: i for i, g in enumerate(sorted(tied))}
        affinity, spread = InterPodAffinity(cluster), PodTopologySpread(cluster)
        for g, n in (cell for part in parts for cell in part.cells if cell[0] in tied):
            for rule in (affinity, spread):
                if rule.rejects(place[g])[n]:
                    return False
                rule.place(place[g], n)
        return all(spread.kept(g) for g in range(cluster.n_classes))


def _together(parts: Sequence[_Part]) -> Verdict:
    placed = [Assignment(a.pod, a.node, order) for order, a in enumerate((a for part in parts for a in part.assignments), 1)]
    return Verdict(len(placed), len(placed), placed, by="composition" if placed else "nothing")


def _ties(cls: PodClass) -> bool:
    """Return whether what vanishes elsewhere may matter to pods in a way that is not looked at."""
    return any(spread.min_domains > 1 for spread in cls.spread)


def _selectors(cls: PodClass) -> list[int]:
    found = [spread.matcher for spread in cls.spread if spread.matcher is not None] + [term.matcher for term in cls.anti]
    return found + ([cls.affinity.full] if cls.affinity is not None else [])
