"""The relaxation over classes and brands: the number of nodes of each brand, and of pods of each class on all nodes of a brand.

The nodes of one brand are treated as one large node. Every purchase that places everything satisfies the
model. So its least cost is a lower bound, and its solution is the next purchase to try. Purchases that failed
are cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd

import numpy as np

from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.cluster.cluster import Ids, Ints
from kubestow.models.kube.selectors import Bools
from kubestow.models.snapshot.scope import is_replicated
from kubestow.solver.capacity.size.brands import HOSTNAME, Menu
from kubestow.solver.capacity.size.options import SizeOptions
from kubestow.solver.capacity.survive.options import SurviveOptions
from kubestow.solver.cpsat.run import CpSat, CpSatAnswer, OnValue
from kubestow.solver.ortools import cp_model
from kubestow.solver.rules.eligibility import room_with_slots

#: Number of (class, node) pairs up to which a purchase is packed node by node before it is tried.
MAX_PACKING_PAIRS = 2_000
#: Note for a purchase that leaves out domains of the catalogue which a spread constraint would count.
UNEVEN = "no purchase at this cost is even over all domains of the catalogue; spread constraints count only domains with nodes"
#: Number of nodes that no purchase exceeds.
MAX_NODES = 100_000


@dataclass
class NodeGroup:
    """Existing nodes that the same classes can use.

    Attributes:
        nodes: Indices of the nodes.
        room: int64[R + 1], free resources and pod slots in total.
        max_pods: int64[G], the maximum number of pods of each class.
    """

    nodes: Ints
    room: Ints
    max_pods: Ints


@dataclass
class Master:
    """The integer program.

    Attributes:
        y: Nodes of each brand.
        x: Pods by (class, brand).
        z: Pods by (class, group).
        linked_master: A master over another menu with the same brands, whose model and nodes this one
            extends.
        ceiling: Maximum useful number of nodes of each brand.
    """

    menu: Menu
    catalogue: Catalogue
    request: SizeOptions
    linked_master: Master | None = None
    ceiling: list[int] = field(default_factory=list)
    groups: list[NodeGroup] = field(default_factory=list)
    sound: bool = True  # True while every purchase that was cut off is proved to leave pods unplaced

    def __post_init__(self) -> None:
        self.model: cp_model.CpModel = cp_model.CpModel() if self.linked_master is None else self.linked_master.model
        self.unit = gcd(*(brand.price for brand in self.menu.brands)) or 1
        self.groups = groups_of(self.menu)
        self.pods = int(self.menu.count.sum())
        self._reached: dict[tuple[int, int], cp_model.IntVar] = {} if self.linked_master is None else self.linked_master._reached
        self._variables()
        self._room()
        self._alone()
        self._spread()
        if self.linked_master is None:
            self._catalogue()
        self._failures()

    # --- the model --------------------------------------------------------------------------------------------------------------

    def _variables(self) -> None:
        menu, model = self.menu, self.model
        self.ceiling = self.ceiling or ceilings(menu, self.catalogue, self.request)
        linked = self.linked_master
        self.y: list[cp_model.IntVar] = [model.new_int_var(0, upper, "") for upper in self.ceiling] if linked is None else linked.y
        self.x: dict[tuple[int, int], cp_model.IntVar] = {}
        self.z: dict[tuple[int, int], cp_model.IntVar] = {}
        for g, count in enumerate(menu.count.tolist()):
            for b in np.flatnonzero(menu.max_pods[g]).tolist():
                self.x[g, b] = model.new_int_var(0, count, "")
            for k, group in enumerate(self.groups):
                if group.max_pods[g]:
                    self.z[g, k] = model.new_int_var(0, min(count, int(group.max_pods[g])), "")
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
        """Cap the pods of each class on a node, and the pods of mutually exclusive classes at one per node."""
        menu = self.menu
        for (g, b), variable in self.x.items():
            if menu.max_pods[g, b] < menu.count[g]:
                self.model.add(variable <= self.y[b] * int(menu.max_pods[g, b]))
        for members in exclusive(menu):
            for b in range(len(self.y)):
                here = [self.x[g, b] for g in members if (g, b) in self.x]
                if len(here) > 1:
                    self.model.add(cp_model.LinearExpr.sum(here) <= self.y[b])

    def _spread(self, *, every: bool = False) -> None:
        """Add the spread constraints whose counts involve only pods of the model.

        No domain has more pods than the emptiest domain that counts, plus the skew. Trials check the rest.

        Args:
            every: True if domains of the catalogue count without a node, as they will once one is added.
        """
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
        """Cap the pods of a class per node at ``skew`` plus the least that an existing or purchased node can take."""
        menu = self.menu
        there = min((int(menu.eligibility[g, n]) for n in menu.there.tolist() if eligible[n]), default=self.pods)
        for b in range(len(self.y)):
            if (g, b) not in self.x:
                continue
            self.model.add(self.x[g, b] <= self.y[b] * (there + skew))
            for other, brand in enumerate(menu.brands):
                if eligible[brand.node] and menu.max_pods[g, other] + skew < menu.max_pods[g, b]:
                    row = self.x[g, b] <= self.y[b] * int(menu.max_pods[g, other] + skew)
                    self.model.add(row).only_enforce_if(self._at_least(other, 1))

    def _even(self, members: Sequence[int], skew: int, codes: Ids, eligible: Bools, *, every: bool) -> None:
        """Allow at most ``skew`` more pods of these classes in one domain than in another domain that counts.

        Args:
            codes: int32[N], the domain of each node.
            every: True if a domain counts if one of its brands can take such a pod.
        """
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
        for name, limit in self.catalogue.most.items():
            if name in by_shape:
                model.add(cp_model.LinearExpr.sum([self.y[b] for b in by_shape[name]]) <= limit)
        excess = [self.catalogue.excess[name] for name in shapes]
        if max(excess, default=0) > 0:
            model.add(cp_model.LinearExpr.weighted_sum(self.y, excess) <= 0)
        if self.request.kinds is not None and self.request.kinds < len(by_shape):
            chosen = []
            for members in by_shape.values():
                literal = model.new_bool_var("")
                chosen.append(literal)
                for b in members:
                    model.add(self.y[b] == 0).only_enforce_if(~literal)
            model.add(cp_model.LinearExpr.sum(chosen) <= self.request.kinds)

    def _failures(self) -> None:
        """Require that the nodes left after a failure have room for all pods that return."""
        menu, survive = self.menu, self.request.survive
        if survive is None:
            return
        needed = menu.demand.T @ _returning(menu, survive)
        there = sum((group.room for group in self.groups), np.zeros(len(needed), dtype=np.int64))
        codes = None if survive.key is None else menu.cluster.domains(survive.key)[0]
        for r in np.flatnonzero(needed > 0).tolist():
            room, wanted = menu.room[:, r].tolist(), int(needed[r] - there[r])
            for b, brand in enumerate(menu.brands):
                if codes is None:
                    lost = min(survive.at_once, self.ceiling[b])
                    surviving = cp_model.LinearExpr.weighted_sum(self.y, room)
                    if lost:
                        self.model.add(surviving >= wanted + lost * room[b]).only_enforce_if(self._at_least(b, lost))
                elif codes[brand.node] >= 0:
                    others = [0 if codes[other.node] == codes[brand.node] else room[o] for o, other in enumerate(menu.brands)]
                    self.model.add(cp_model.LinearExpr.weighted_sum(self.y, others) >= wanted).only_enforce_if(self._at_least(b, 1))

    # --- solves and cuts ----------------------------------------------------------------------------------------------------------

    @property
    def cost(self) -> cp_model.LinearExprT:
        """The cost of the purchase, in multiples of ``unit``."""
        return cp_model.LinearExpr.weighted_sum(self.y, [brand.price // self.unit for brand in self.menu.brands])

    def cheapest(self, cpsat: CpSat, seconds: float, on_value: OnValue | None = None) -> CpSatAnswer:
        """Solve for the least cost."""
        model = self.model.clone()
        model.minimize(self.cost)
        return cpsat.run(model, seconds, on_value)

    def even(self, cpsat: CpSat, cost: int, count: int, seconds: float) -> CpSatAnswer | None:
        """Solve for a purchase of a cost and number of nodes in which spread constraints count every domain of the catalogue.

        The model keeps these rows. Return None if there is no such constraint.
        """
        before = len(self.model.proto.constraints)
        self._spread(every=True)
        if len(self.model.proto.constraints) == before:
            return None
        model = self.model.clone()
        model.add(self.cost <= cost)
        model.add(cp_model.LinearExpr.sum(self.y) <= count)
        return cpsat.run(model, seconds)

    def fewest(self, cpsat: CpSat, cost: int, seconds: float) -> CpSatAnswer:
        """Solve for the fewest nodes at a cost."""
        model = self.model.clone()
        model.add(self.cost <= cost)
        model.minimize(cp_model.LinearExpr.sum(self.y))
        return cpsat.run(model, seconds)

    def nodes(self, solution: Sequence[int]) -> list[int]:
        """Return the nodes of each brand in a solution."""
        return [solution[v.index] for v in self.y]

    def cut(self, counts: Sequence[int], *, below: bool, proved: bool) -> None:
        """Cut off a purchase.

        Args:
            below: True to cut off every smaller purchase in the same domains, too.
        """
        self.sound &= proved
        literals: list[cp_model.LiteralT] = [self._at_least(b, count + 1) for b, count in enumerate(counts) if count < self.ceiling[b]]
        if not below:
            literals += [~self._at_least(b, count) for b, count in enumerate(counts) if count]
        elif self.menu.fragile:
            literals += [~self._at_least(b, 1) for b, count in enumerate(counts) if count]
        self.model.add_bool_or(literals)

    def packs(self, counts: Sequence[int], cpsat: CpSat, seconds: float) -> bool:
        """Return False if packing the pods node by node proves that they do not fit on these nodes.

        Rules between domains are ignored. A refuted purchase is cut off, with all purchases that have no more
        nodes of any shape.
        """
        menu, shapes = self.menu, [b.offers[0].shape.name for b in self.menu.brands]
        room = np.maximum(room_with_slots(menu.cluster), 0)
        nodes = [(room[n], menu.eligibility[:, n]) for n in menu.there.tolist() if menu.eligibility[:, n].any()]
        totals: dict[str, tuple[list[int], int]] = {}
        for shape in dict.fromkeys(shapes):
            brands = [b for b, name in enumerate(shapes) if name == shape]
            totals[shape] = brands, sum(counts[b] for b in brands)
            nodes += [(menu.room[brands].max(axis=0), menu.max_pods[:, brands].max(axis=1))] * totals[shape][1]
        if len(nodes) * len(menu.count) > MAX_PACKING_PAIRS:
            return True
        if cpsat.run(_packing(menu, nodes), seconds).status != cp_model.INFEASIBLE:
            return True
        self.cut_shapes(counts)
        return False

    def cut_shapes(self, counts: Sequence[int]) -> None:
        """Cut off every purchase that has no more nodes of any shape, in any zones. The caller has proved that it fails."""
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
        """Return the literal that at least ``count`` nodes of a brand are bought."""
        literal = self._reached.get((b, count))
        if literal is None:
            literal = self._reached[b, count] = self.model.new_bool_var("")
            self.model.add(self.y[b] >= count).only_enforce_if(literal)
            self.model.add(self.y[b] <= count - 1).only_enforce_if(~literal)
        return literal


def _returning(menu: Menu, survive: SurviveOptions) -> Ints:
    """Return int64[G], the pods of each class that must return after failures."""
    back = np.zeros(len(menu.count), dtype=np.int64)
    for g, cls in enumerate(menu.cluster.classes):
        if survive.priority is None or (cls.pod.spec.priority or 0) >= survive.priority:
            back[g] = sum(is_replicated(menu.cluster.snapshot.pods[i]) for i in cls.pods)
    return back


def _packing(menu: Menu, nodes: Sequence[tuple[Ints, Ints]]) -> cp_model.CpModel:
    """Return a model that places every pod on one of these nodes, given their room and their caps on pods of each class."""
    model = cp_model.CpModel()
    count, demand = menu.count.tolist(), menu.demand
    x: dict[tuple[int, int], cp_model.IntVar] = {}
    for j, (_, limits) in enumerate(nodes):
        x |= {(g, j): model.new_int_var(0, min(pods, int(limits[g])), "") for g, pods in enumerate(count) if limits[g]}
    here = [[g for g in range(len(count)) if (g, j) in x] for j in range(len(nodes))]
    for g, pods in enumerate(count):
        model.add(cp_model.LinearExpr.sum([x[g, j] for j in range(len(nodes)) if (g, j) in x]) == pods)
    sets = exclusive(menu)
    for j, (room, _) in enumerate(nodes):
        for r in range(len(room)):
            model.add(cp_model.LinearExpr.weighted_sum([x[g, j] for g in here[j]], demand[here[j], r].tolist()) <= int(room[r]))
        for members in sets:
            model.add(cp_model.LinearExpr.sum([x[g, j] for g in members if (g, j) in x]) <= 1)
        if j and nodes[j - 1] is nodes[j]:  # symmetry breaking between equal nodes: the fuller one first
            loads = [cp_model.LinearExpr.weighted_sum([x[g, i] for g in here[i]], demand[here[i], 0].tolist()) for i in (j - 1, j)]
            model.add(loads[0] >= loads[1])
    return model


def ceilings(menu: Menu, catalogue: Catalogue, request: SizeOptions) -> list[int]:
    """Return the maximum useful number of nodes of each brand: for pods, for failures, and to offset spot nodes."""
    pods = int(menu.count.sum())
    useful = pods + 1 if request.survive is None else 2 * (pods + 1) * (1 + request.survive.at_once)
    shapes = [brand.offers[0].shape.name for brand in menu.brands]
    spot = useful * max([0, *(catalogue.excess[name] for name in shapes)])
    surplus = [min(MAX_NODES, -(spot // catalogue.excess[name])) if catalogue.excess[name] < 0 else 0 for name in shapes]
    return [min(useful + more, catalogue.most.get(name, useful + more)) for name, more in zip(shapes, surplus, strict=True)]


def groups_of(menu: Menu) -> list[NodeGroup]:
    """Return the existing nodes, grouped by the classes they can take and the domains they are in."""
    cluster = menu.cluster
    codes = [cluster.domains(key)[0] for key in menu.keys]
    nodes_by_traits: dict[object, list[int]] = {}
    for n in menu.there.tolist():
        if menu.eligibility[:, n].any():
            nodes_by_traits.setdefault(((menu.eligibility[:, n] > 0).tobytes(), tuple(int(code[n]) for code in codes)), []).append(n)
    room = np.maximum(room_with_slots(cluster), 0)
    return [
        NodeGroup(nodes, room[nodes].sum(axis=0), menu.eligibility[:, nodes].sum(axis=1))
        for nodes in (np.array(members, dtype=np.int64) for members in nodes_by_traits.values())
    ]


def exclusive(menu: Menu) -> list[list[int]]:
    """Return sets of classes of which a node takes one pod in total, because a term of anti-affinity by hostname
    matches its own carriers."""
    carriers: dict[int, list[int]] = {}
    for g, cls in enumerate(menu.cluster.classes):
        for term in cls.anti:
            if term.key == HOSTNAME and menu.cluster.matches(term.matcher)[g]:
                carriers.setdefault(term.matcher, []).append(g)
    return [members for members in carriers.values() if len(members) > 1]
