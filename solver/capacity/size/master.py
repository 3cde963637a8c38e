"""The relaxation on classes and brands: how many nodes of each brand, and how many pods of each class on all nodes of a brand together.

Nodes of one brand are one node so many times as large. Every purchase that places everything solves it, so its least cost is a bound, and
its solution says what to try first. Purchases that were tried in vain are cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd

import numpy as np
from ortools.sat.python import cp_model

from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.cluster.cluster import Ids, Ints
from kubestow.models.kube.selectors import Bools
from kubestow.models.snapshot.scope import is_replicated
from kubestow.solver.capacity.size.menu import HOSTNAME, Menu
from kubestow.solver.capacity.size.options import SizeOptions
from kubestow.solver.cpsat.run import Answer, CpSat, OnValue
from kubestow.solver.rules.eligibility import room_with_slots

#: (class, node) pairs up to which a purchase is packed node by node before it is tried.
ONE_BY_ONE = 2_000
#: What is said where all purchases of the least cost leave domains of the catalogue out that a spread constraint will count.
UNEVEN = "spread constraints count only domains that have nodes: no purchase at this cost is even over all domains of the catalogue"
#: More nodes than any purchase has.
ANY = 100_000


@dataclass
class Group:
    """Nodes that are there and that classes reach alike: their room together, int64[R + 1], and pods of each class at most, int64[G]."""

    nodes: Ints
    room: Ints
    most: Ints


@dataclass
class Master:
    """The model. ``y``: nodes by brand; ``x``: pods by (class, brand); ``z``: pods by (class, group).

    ``beside``: the master of another menu of the same brands, whose model and nodes this one has, too: what is bought has to do for both.
    ``ceiling``: nodes of each brand that are of use at most.
    """

    menu: Menu
    catalogue: Catalogue
    asked: SizeOptions
    beside: Master | None = None
    ceiling: list[int] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    sound: bool = True  # every purchase that was cut off is proved to leave pods

    def __post_init__(self) -> None:
        self.model: cp_model.CpModel = cp_model.CpModel() if self.beside is None else self.beside.model
        self.unit = gcd(*(brand.price for brand in self.menu.brands)) or 1
        self.groups = groups_of(self.menu)
        self.pods = int(self.menu.count.sum())
        self._reached: dict[tuple[int, int], cp_model.IntVar] = {} if self.beside is None else self.beside._reached
        self._variables()
        self._room()
        self._alone()
        self._spread()
        if self.beside is None:
            self._catalogue()
        self._failures()

    # --- the model --------------------------------------------------------------------------------------------------------------

    def _variables(self) -> None:
        menu, model = self.menu, self.model
        self.ceiling = self.ceiling or ceilings(menu, self.catalogue, self.asked)
        beside = self.beside
        self.y: list[cp_model.IntVar] = [model.new_int_var(0, most, "") for most in self.ceiling] if beside is None else beside.y
        self.x: dict[tuple[int, int], cp_model.IntVar] = {}
        self.z: dict[tuple[int, int], cp_model.IntVar] = {}
        for g, count in enumerate(menu.count.tolist()):
            for b in np.flatnonzero(menu.most[g]).tolist():
                self.x[g, b] = model.new_int_var(0, count, "")
            for k, group in enumerate(self.groups):
                if group.most[g]:
                    self.z[g, k] = model.new_int_var(0, min(count, int(group.most[g])), "")
            here = [self.x[g, b] for b in range(len(self.y)) if (g, b) in self.x] + [
                self.z[g, k] for k in range(len(self.groups)) if (g, k) in self.z
            ]
            model.add(cp_model.LinearExpr.sum(here) == count)

    def _room(self) -> None:
        menu = self.menu
        for r in range(menu.demand.shape[1]):
            wanted = menu.demand[:, r]
            unit = gcd(*wanted.tolist()) or 1
            scaled = (wanted // unit).tolist()
            for b in range(len(self.y)):
                cells = [(v, scaled[g]) for g in range(len(scaled)) if scaled[g] and (v := self.x.get((g, b))) is not None]
                if cells:
                    self._sum(cells, self.y[b] * int(menu.room[b, r] // unit))
            for k, group in enumerate(self.groups):
                cells = [(v, scaled[g]) for g in range(len(scaled)) if scaled[g] and (v := self.z.get((g, k))) is not None]
                if cells:
                    self._sum(cells, int(group.room[r] // unit))

    def _sum(self, cells: Sequence[tuple[cp_model.IntVar, int]], limit: cp_model.LinearExprT) -> None:
        variables, weights = zip(*cells, strict=True)
        self.model.add(cp_model.LinearExpr.weighted_sum(list(variables), list(weights)) <= limit)

    def _alone(self) -> None:
        """What one node takes of a class at most, and of classes of which it takes one pod in all."""
        menu = self.menu
        for (g, b), variable in self.x.items():
            if menu.most[g, b] < menu.count[g]:
                self.model.add(variable <= self.y[b] * int(menu.most[g, b]))
        for members in exclusive(menu):
            for b in range(len(self.y)):
                here = [self.x[g, b] for g in members if (g, b) in self.x]
                if len(here) > 1:
                    self.model.add(cp_model.LinearExpr.sum(here) <= self.y[b])

    def _spread(self, *, every: bool = False) -> None:
        """Pods spread over zones and the like: where nothing else is counted, no domain has more of them in the end than the emptiest that
        counts and the skew. What is left out here is for trials to find. ``every``: domains of the catalogue count though nothing is bought
        there, as they will with the first node that comes to them."""
        cluster = self.menu.cluster
        for key, matcher, eligible in dict.fromkeys((s.key, s.matcher, s.eligible) for cls in cluster.classes for s in cls.spread):
            if matcher is None or cluster.fixed_count(matcher).any():
                continue
            members = cluster.matching(matcher).tolist()
            skews = [
                [s.max_skew for s in cluster.classes[g].spread if (s.key, s.matcher, s.eligible) == (key, matcher, eligible)]
                for g in members
            ]
            if members and all(skews) and key == HOSTNAME:
                if len(members) == 1 and not every:
                    self._level(members[0], max(skews[0]), cluster.node_sets[eligible])
            elif members and all(skews):
                codes, _ = cluster.domains(key)
                self._even(members, max(map(max, skews)), codes, cluster.node_sets[eligible] & (codes >= 0), every=every)

    def _level(self, g: int, skew: int, eligible: Bools) -> None:
        """No node has more pods of a class than ``skew`` above what the least of the nodes that are there, or bought, can take at most."""
        menu = self.menu
        there = min((int(menu.limits[g, n]) for n in menu.there.tolist() if eligible[n]), default=self.pods)
        for b in range(len(self.y)):
            if (g, b) not in self.x:
                continue
            self.model.add(self.x[g, b] <= self.y[b] * (there + skew))
            for other, brand in enumerate(menu.brands):
                if eligible[brand.node] and menu.most[g, other] + skew < menu.most[g, b]:
                    row = self.x[g, b] <= self.y[b] * int(menu.most[g, other] + skew)
                    self.model.add(row).only_enforce_if(self._at_least(other, 1))

    def _even(self, members: Sequence[int], skew: int, codes: Ids, eligible: Bools, *, every: bool) -> None:
        """At most ``skew`` more of these classes in one domain than in another that is there; ``codes``: int32[N], domains of the nodes.
        ``every``: a domain counts if one of its brands takes such a pod."""
        pods: dict[int, list[cp_model.IntVar]] = {}
        there: set[int] = {int(codes[n]) for n in self.menu.there.tolist() if eligible[n]}
        bought: dict[int, list[int]] = {}
        for b, brand in enumerate(self.menu.brands):
            if eligible[brand.node]:
                pods.setdefault(int(codes[brand.node]), []).extend(self.x[g, b] for g in members if (g, b) in self.x)
                bought.setdefault(int(codes[brand.node]), []).append(b)
        if every:
            there |= {d for d in bought if pods.get(d)}
        for k, group in enumerate(self.groups):
            if eligible[group.nodes[0]]:
                pods.setdefault(int(codes[group.nodes[0]]), []).extend(self.z[g, k] for g in members if (g, k) in self.z)
        for d in pods:
            for other in {*there, *bought} - {d}:
                row = cp_model.LinearExpr.sum(pods[d]) <= cp_model.LinearExpr.sum(pods.get(other, [])) + skew
                if other in there:
                    self.model.add(row)
                for b in bought.get(other, ()) if other not in there else ():
                    self.model.add(row).only_enforce_if(self._at_least(b, 1))

    def _catalogue(self) -> None:
        model, shapes = self.model, [b.offers[0].shape.name for b in self.menu.brands]
        by_shape = {name: [b for b, other in enumerate(shapes) if other == name] for name in dict.fromkeys(shapes)}
        for name, most in self.catalogue.most.items():
            if name in by_shape:
                model.add(cp_model.LinearExpr.sum([self.y[b] for b in by_shape[name]]) <= most)
        excess = [self.catalogue.excess[name] for name in shapes]
        if max(excess, default=0) > 0:
            model.add(cp_model.LinearExpr.weighted_sum(self.y, excess) <= 0)
        if self.asked.kinds is not None and self.asked.kinds < len(by_shape):
            chosen = []
            for members in by_shape.values():
                literal = model.new_bool_var("")
                chosen.append(literal)
                for b in members:
                    model.add(self.y[b] == 0).only_enforce_if(~literal)
            model.add(cp_model.LinearExpr.sum(chosen) <= self.asked.kinds)

    def _failures(self) -> None:
        """After a failure what is left has room for all pods that come back."""
        menu, survive = self.menu, self.asked.survive
        if survive is None:
            return
        back = [
            sum(is_replicated(menu.cluster.snapshot.pods[i]) for i in cls.pods)
            if survive.priority is None or (cls.pod.spec.priority or 0) >= survive.priority
            else 0
            for cls in menu.cluster.classes
        ]
        needed = menu.demand.T @ np.array(back, dtype=np.int64)
        there = sum((group.room for group in self.groups), np.zeros(len(needed), dtype=np.int64))
        codes = None if survive.key is None else menu.cluster.domains(survive.key)[0]
        for r in np.flatnonzero(needed > 0).tolist():
            room, wanted = menu.room[:, r].tolist(), int(needed[r] - there[r])
            for b, brand in enumerate(menu.brands):
                if codes is None:
                    lost = min(survive.at_once, self.ceiling[b])
                    left = cp_model.LinearExpr.weighted_sum(self.y, room)
                    if lost:
                        self.model.add(left >= wanted + lost * room[b]).only_enforce_if(self._at_least(b, lost))
                elif codes[brand.node] >= 0:
                    others = [0 if codes[other.node] == codes[brand.node] else room[o] for o, other in enumerate(menu.brands)]
                    self.model.add(cp_model.LinearExpr.weighted_sum(self.y, others) >= wanted).only_enforce_if(self._at_least(b, 1))

    # --- asked and told -----------------------------------------------------------------------------------------------------------

    @property
    def cost(self) -> cp_model.LinearExprT:
        """What is bought costs, in units of ``unit``."""
        return cp_model.LinearExpr.weighted_sum(self.y, [brand.price // self.unit for brand in self.menu.brands])

    def cheapest(self, cpsat: CpSat, seconds: float, on_value: OnValue | None = None) -> Answer:
        """Solve for the least cost."""
        model = self.model.clone()
        model.minimize(self.cost)
        return cpsat.run(model, seconds, on_value)

    def even(self, cpsat: CpSat, cost: int, count: int, seconds: float) -> Answer | None:
        """Solve for a purchase of a cost and a number of nodes in which spread constraints count every domain of the catalogue. None: no
        constraint is about one. The model has these rows from then on."""
        before = len(self.model.proto.constraints)
        self._spread(every=True)
        if len(self.model.proto.constraints) == before:
            return None
        model = self.model.clone()
        model.add(self.cost <= cost)
        model.add(cp_model.LinearExpr.sum(self.y) <= count)
        return cpsat.run(model, seconds)

    def fewest(self, cpsat: CpSat, cost: int, seconds: float) -> Answer:
        """Solve for the fewest nodes at a cost."""
        model = self.model.clone()
        model.add(self.cost <= cost)
        model.minimize(cp_model.LinearExpr.sum(self.y))
        return cpsat.run(model, seconds)

    def nodes(self, solution: Sequence[int]) -> list[int]:
        """Return nodes by brand in a solution."""
        return [solution[v.index] for v in self.y]

    def cut(self, counts: Sequence[int], *, below: bool, proved: bool) -> None:
        """Cut a purchase off; ``below``: with everything that is part of it and reaches the same domains."""
        self.sound &= proved
        literals: list[cp_model.LiteralT] = [self._at_least(b, count + 1) for b, count in enumerate(counts) if count < self.ceiling[b]]
        if not below:
            literals += [~self._at_least(b, count) for b, count in enumerate(counts) if count]
        elif self.menu.fragile:
            literals += [~self._at_least(b, 1) for b, count in enumerate(counts) if count]
        self.model.add_bool_or(literals)

    def packs(self, counts: Sequence[int], cpsat: CpSat, seconds: float) -> bool:
        """Return whether pods may fit on so many nodes, one by one, if no rule about zones and the like is asked; where that is proved not
        to be, nothing is bought any more that has no more nodes of any shape."""
        menu, shapes = self.menu, [b.offers[0].shape.name for b in self.menu.brands]
        room = np.maximum(room_with_slots(menu.cluster), 0)
        nodes = [(room[n], menu.limits[:, n]) for n in menu.there.tolist() if menu.limits[:, n].any()]
        totals: dict[str, tuple[list[int], int]] = {}
        for shape in dict.fromkeys(shapes):
            brands = [b for b, name in enumerate(shapes) if name == shape]
            totals[shape] = brands, sum(counts[b] for b in brands)
            nodes += [(menu.room[brands].max(axis=0), menu.most[:, brands].max(axis=1))] * totals[shape][1]
        if len(nodes) * len(menu.count) > ONE_BY_ONE:
            return True
        if cpsat.run(_packing(menu, nodes), seconds).status != cp_model.INFEASIBLE:
            return True
        self.cut_shapes(counts)
        return False

    def cut_shapes(self, counts: Sequence[int]) -> None:
        """Cut off, as proved, everything that has no more nodes of any shape, whatever the zones."""
        by_shape: dict[str, list[int]] = {}
        for b, brand in enumerate(self.menu.brands):
            by_shape.setdefault(brand.offers[0].shape.name, []).append(b)
        more = []
        for brands in by_shape.values():
            literal = self.model.new_bool_var("")
            reached = sum(counts[b] for b in brands) + 1
            self.model.add(cp_model.LinearExpr.sum([self.y[b] for b in brands]) >= reached).only_enforce_if(literal)
            more.append(literal)
        self.model.add_bool_or(more)

    def _at_least(self, b: int, count: int) -> cp_model.IntVar:
        """The literal that so many nodes of a brand are bought at least."""
        found = self._reached.get((b, count))
        if found is None:
            found = self._reached[b, count] = self.model.new_bool_var("")
            self.model.add(self.y[b] >= count).only_enforce_if(found)
            self.model.add(self.y[b] <= count - 1).only_enforce_if(~found)
        return found


def _packing(menu: Menu, nodes: Sequence[tuple[Ints, Ints]]) -> cp_model.CpModel:
    """Every pod on one of these nodes: their room, and the pods of each class that they take."""
    model = cp_model.CpModel()
    count, demand = menu.count.tolist(), menu.demand
    x: dict[tuple[int, int], cp_model.IntVar] = {}
    for j, (_, most) in enumerate(nodes):
        x |= {(g, j): model.new_int_var(0, min(pods, int(most[g])), "") for g, pods in enumerate(count) if most[g]}
    here = [[g for g in range(len(count)) if (g, j) in x] for j in range(len(nodes))]
    for g, pods in enumerate(count):
        model.add(cp_model.LinearExpr.sum([x[g, j] for j in range(len(nodes)) if (g, j) in x]) == pods)
    sets = exclusive(menu)
    for j, (room, _) in enumerate(nodes):
        for r in range(len(room)):
            model.add(cp_model.LinearExpr.weighted_sum([x[g, j] for g in here[j]], demand[here[j], r].tolist()) <= int(room[r]))
        for members in sets:
            model.add(cp_model.LinearExpr.sum([x[g, j] for g in members if (g, j) in x]) <= 1)
        if j and nodes[j - 1] is nodes[j]:  # alike: the fuller first
            loads = [cp_model.LinearExpr.weighted_sum([x[g, i] for g in here[i]], demand[here[i], 0].tolist()) for i in (j - 1, j)]
            model.add(loads[0] >= loads[1])
    return model


def ceilings(menu: Menu, catalogue: Catalogue, asked: SizeOptions) -> list[int]:
    """Return the nodes of each brand that are of use at most: with pods, after failures, and without pods to outweigh spot nodes."""
    pods = int(menu.count.sum())
    useful = pods + 1 if asked.survive is None else 2 * (pods + 1) * (1 + asked.survive.at_once)
    shapes = [brand.offers[0].shape.name for brand in menu.brands]
    spot = useful * max([0, *(catalogue.excess[name] for name in shapes)])
    beside = [min(ANY, -(spot // catalogue.excess[name])) if catalogue.excess[name] < 0 else 0 for name in shapes]
    return [min(useful + more, catalogue.most.get(name, useful + more)) for name, more in zip(shapes, beside, strict=True)]


def groups_of(menu: Menu) -> list[Group]:
    """Nodes that are there by the classes that they take and the domains that they are in."""
    cluster = menu.cluster
    codes = [cluster.domains(key)[0] for key in menu.keys]
    found: dict[object, list[int]] = {}
    for n in menu.there.tolist():
        if menu.limits[:, n].any():
            found.setdefault(((menu.limits[:, n] > 0).tobytes(), tuple(int(code[n]) for code in codes)), []).append(n)
    room = np.maximum(room_with_slots(cluster), 0)
    return [
        Group(nodes, room[nodes].sum(axis=0), menu.limits[:, nodes].sum(axis=1))
        for nodes in (np.array(members, dtype=np.int64) for members in found.values())
    ]


def exclusive(menu: Menu) -> list[list[int]]:
    """Return sets of classes of which a node takes one pod in all: they carry one anti-affinity term over hostnames that matches them."""
    carriers: dict[int, list[int]] = {}
    for g, cls in enumerate(menu.cluster.classes):
        for term in cls.anti:
            if term.key == HOSTNAME and menu.cluster.matches(term.matcher)[g]:
                carriers.setdefault(term.matcher, []).append(g)
    return [members for members in carriers.values() if len(members) > 1]
