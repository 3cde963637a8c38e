"""Composed certificates: certificates of single failures that do not interact certify these failures together.

The conditions and the argument are in docs/algorithms/capacity.md (Survive).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from typing import Any, Final

import numpy as np

from kubestow.models.cluster.cluster import Ints, PodClass
from kubestow.models.documents.placement import Assignment
from kubestow.models.kube.selectors import Bools
from kubestow.solver import rules
from kubestow.solver.capacity.survive.decide import ScenarioVerdict
from kubestow.solver.capacity.survive.instance import FailureInstance
from kubestow.solver.rules.eligibility import demand_with_slots, room_with_slots
from kubestow.solver.rules.plans import PlanFace

#: Maximum number of placement combinations considered for one failure, and of those checked against rules.
MAX_COMBINATIONS: Final = 8
MAX_RULE_CHECKS: Final = 2


@dataclass(frozen=True, slots=True)
class _SingleFailure:
    """The pods that return after a single failure.

    Attributes:
        assignments: Their nodes.
        cells: Class and node of each, in bind order.
        classes: Their classes.
        takes: int64[R + 1] by node, requested resources and (last) pod slots.
        ported: Nodes that receive pods with host ports.
        zoned: Nodes that receive containers with NUMA zones.
        volumes: True if any pod has a volume.
    """

    assignments: list[Assignment]
    cells: list[tuple[int, int]]
    classes: frozenset[int]
    takes: dict[int, Ints]
    ported: frozenset[int]
    zoned: frozenset[int]
    volumes: bool


class Composition:
    """The composition of single certificates.

    Attributes:
        nodes: The nodes of each domain.
        verdicts: For each single failure, the placements found.
    """

    def __init__(
        self,
        instance: FailureInstance,
        nodes: Mapping[str, Sequence[str]],
        verdicts: Mapping[str, Sequence[ScenarioVerdict]],
        keys: Sequence[str],
    ) -> None:
        cluster = instance.cluster
        self._instance, self._domains = instance, nodes
        self._room = room_with_slots(cluster)
        self._nodes = {name: instance.nodes(members).tolist() for name, members in nodes.items()}
        self._index = {name: n for n, name in enumerate(cluster.nodes.names)}
        self._class = {keys[i]: g for g, cls in enumerate(cluster.classes) for i in cls.pods}
        self._asks = demand_with_slots(cluster)
        self._parts: dict[str, list[_SingleFailure]] = {}
        faces = [face(kind(cluster)) for kind, face in rules.PLAN_FACES.items() if face.by_selector]
        unknown = [kind(cluster) for kind in rules.ALL if not kind.static and kind not in rules.PLAN_FACES]
        for name, listed in verdicts.items():
            classes = {g for n in self._nodes[name] for g in instance.returning[n]}
            if instance.derivable(self._nodes[name]) and not any(
                _ties(cluster.classes[g]) or any(rule.concerned(g) for rule in unknown) for g in classes
            ):
                parts = [self._part(verdict, classes) for verdict in listed if verdict.survives]
                self._parts |= {name: parts} if parts else {}
        self._number = {name: i for i, name in enumerate(self._parts)}
        self._compute_links(instance, faces)

    def _part(self, verdict: ScenarioVerdict, classes: Collection[int]) -> _SingleFailure:
        of = self._instance.cluster.classes
        cells = [(self._class[a.pod], self._index[a.node]) for a in verdict.assignments]
        takes: dict[int, Ints] = {}
        for g, n in cells:
            takes[n] = takes[n] + self._asks[g] if n in takes else self._asks[g]
        return _SingleFailure(
            verdict.assignments,
            cells,
            frozenset(classes),
            takes,
            frozenset(n for g, n in cells if of[g].ports),
            frozenset(n for g, n in cells if of[g].containers is not None),
            any(of[g].claims for g in classes),
        )

    def _compute_links(self, instance: FailureInstance, faces: Sequence[PlanFace[Any]]) -> None:
        """Compute the interactions between single failures.

        * ``_reads``: bool[G, P], the label profiles that the selectors of each class match.
        * ``_runs``: bool[D, P], the profiles that run on the nodes of each failure.
        * ``_linked``: bool[D, D], the pairs of failures that interact by selectors.
        """
        cluster = instance.cluster
        self._reads = np.zeros((cluster.n_classes, len(cluster.matchers.profiles)), dtype=bool)
        for g in range(cluster.n_classes):
            for matcher in (matcher for face in faces for matcher in face.selectors(g)):
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
        """The single failures that are certified, in the order of :attr:`free`."""
        return list(self._parts)

    @cached_property
    def free(self) -> Bools:
        """bool[D, D], the pairs of failures whose first certificates hold together, because they do not interact.

        All pairs are computed at once, node by node, because there may be millions.
        """
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

    def certificate(self, failed: Sequence[str]) -> ScenarioVerdict | None:
        """Return the certificate of failures at once; None if theirs cannot be composed."""
        if any(name not in self._parts for name in failed):
            return None
        if len(failed) == 2 and self.free[self._number[failed[0]], self._number[failed[1]]]:
            return _together([self._parts[name][0] for name in failed])
        gone = {n for name in failed for n in self._nodes[name]}
        choices = [[part for part in self._parts[name] if gone.isdisjoint(part.takes)] for name in failed]
        numbers = [self._number[name] for name in failed]
        linked = any(self._linked[numbers[at], numbers[at + 1 :]].any() for at in range(len(numbers)))
        calls = 0
        for parts in islice(product(*choices), MAX_COMBINATIONS):
            if not self._have_room(parts):
                continue
            calls += 1
            if not linked or self._holds(failed, numbers, parts):
                return _together(parts)
            if calls == MAX_RULE_CHECKS:
                break
        return None

    def _have_room(self, parts: Sequence[_SingleFailure]) -> bool:
        """Return True if nodes have room for all pods, and neither volumes, host ports nor NUMA zones interact."""
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

    def _holds(self, failed: Sequence[str], numbers: Sequence[int], parts: Sequence[_SingleFailure]) -> bool:
        """Return True if affinity, anti-affinity and spread accept the pods one after another.

        Only classes that a selector links to another failure are checked, and classes linked to those.
        """
        classes = {g for part in parts for g in part.classes}
        profile = self._instance.cluster.profile
        linked: set[int] = set()
        for i, part in zip(numbers, parts, strict=True):
            others = self._runs[[k for k in numbers if k != i]].any(axis=0)
            linked.update(g for g in part.classes if (self._reads[g] & others).any())
        reached = sorted(linked)
        while reached:
            g = reached.pop()
            more = [h for h in classes - linked if self._reads[g, profile[h]] or self._reads[h, profile[g]]]
            linked.update(more)
            reached += more
        cluster = self._instance.surviving([node for name in failed for node in self._domains[name]], linked)
        place = {g: i for i, g in enumerate(sorted(linked))}
        faces = [face(kind(cluster)) for kind, face in rules.PLAN_FACES.items() if face.by_selector]
        for g, n in (cell for part in parts for cell in part.cells if cell[0] in linked):
            for rule in (face.rule for face in faces):
                if rule.rejects(place[g])[n]:
                    return False
                rule.place(place[g], n)
        return all(face.kept(g) for face in faces for g in range(cluster.n_classes))


def _together(parts: Sequence[_SingleFailure]) -> ScenarioVerdict:
    placed = [Assignment(a.pod, a.node, order) for order, a in enumerate((a for part in parts for a in part.assignments), 1)]
    return ScenarioVerdict(len(placed), len(placed), placed, by="composition" if placed else "nothing")


def _ties(cls: PodClass) -> bool:
    """Return True if the class depends on vanished domains in a way that is not checked here."""
    return any(spread.min_domains > 1 for spread in cls.spread)
