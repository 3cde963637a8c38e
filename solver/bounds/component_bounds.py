"""Upper bounds on the soft tier, by groups of classes that no preference and no hard rule ties together except through
shared room.

A group alone scores at least as much as among the others. See docs/algorithms/groups-and-shared-room.md."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints, domain_sum, single
from kubestow.solver import rules
from kubestow.solver.bounds import coarse_node_patterns
from kubestow.solver.bounds.alike_nodes import alike_nodes, break_symmetry, in_order
from kubestow.solver.bounds.class_groups import groups, parts
from kubestow.solver.bounds.coarse_model import Coarse
from kubestow.solver.bounds.component import ClassComponent
from kubestow.solver.bounds.domain_program import DomainProgram
from kubestow.solver.bounds.move_costs import MoveCosts
from kubestow.solver.bounds.safe_dual_bounds import BUILD_NONZEROS_PER_SECOND, PROGRAM_SECONDS, best_bound
from kubestow.solver.bounds.shared_room import GroupBound, RoomPrices, SharedRoom
from kubestow.solver.cpsat.cells import Cells
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.objective import encoding as objective_encoding
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.shapes import PreferenceTerm
from kubestow.solver.objective.sparse_placement import SparsePlacement
from kubestow.solver.ortools import cp_model
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.placement_model import build_model

MIN_PROGRAM_CLASSES = 8  #: Groups of fewer classes skip the linear program over domains: their models are solved as fast.
FULL_MODEL_INTERVAL = 3  #: Every Nth solve of a group uses its full model while coarse models can still lower the bound.
MAX_PULL_CLASSES = 50  #: A pull towards more classes is not limited by the capacity of a domain: that takes too long.
MAX_FULL_MODEL_VARIABLES = 30_000  #: Larger groups get no model of their own: it would be nearly the whole model.


class Components:
    """Groups of classes with their bounds.

    Attributes:
        unplaced: Per priority, number of pods that fit somewhere and may stay unplaced.
        moves: Cost in points of moving running pods. None if moves are free.
        found: The groups, followed by their parts.
        share_every: Joint bounding rests for this multiple of the time that its last run took.
    """

    share_every = 30

    def __init__(
        self,
        cluster: Cluster,
        objective: Objective,
        eligibility: Ints,
        unplaced: dict[int, int],
        moves: MoveCosts | None = None,
        active: Sequence[Rule] = (),
    ) -> None:
        self.cluster, self.objective, self.eligibility, self.unplaced, self.moves = cluster, objective, eligibility, unplaced, moves
        self._paired, self._count = set(objective.pairs), np.minimum(cluster.count, eligibility.sum(axis=1))
        self._alone: dict[tuple[int, bool], int] = {}  # points of a class from single nodes, with and without the cost of moves
        self._room: SharedRoom | None = None
        self._ceilings: list[tuple[int, int]] = []  # per group: upper bounds on the points from single nodes, and on all others
        self._share_at = float("inf")  # remaining seconds below which groups are bounded together again
        self._shared: tuple[int, int] | None = None  # sum of the groups' bounds at the last joint bounding, and its result
        linking = active or rules.linking(cluster)
        self.found = [ClassComponent(classes, self._ceiling(classes)) for classes in groups(objective, linking)]
        whole = {g: i for i, component in enumerate(self.found) for g in component.classes}
        self._parts: dict[int, list[int]] = {}  # indices of the parts, by the index of their group
        for part in parts(objective, linking):
            group = self.found[i := whole[part[0]]]
            if len(part) < len(group.classes):
                group.split = True
                self._parts.setdefault(i, []).append(len(self.found))
                self.found.append(ClassComponent(part, self._ceiling(part), whole=i))
        for component in self.found:
            # Solving such a group cannot lower its bound.
            component.proved = component.bound == self._flat(component.classes) and not self._connected(component.classes)

    @property
    def bound(self) -> int:
        """Upper bound on the points of any placement: the smaller of the sum of the groups' bounds and the joint bound."""
        total = sum(bound for _, bound in self._wholes())
        return total if self._shared is None else min(total, self._shared[1])

    @property
    def prices(self) -> RoomPrices | None:
        """Shadow prices of node capacity. None before :meth:`share` runs, or if no group competes for capacity."""
        return None if self._room is None else self._room.prices

    def _wholes(self) -> list[tuple[ClassComponent, int]]:
        inside: dict[int | None, int] = {}
        for part in self.found:
            inside[part.whole] = inside.get(part.whole, 0) + part.bound
        return [(c, min(c.bound, inside.get(i, c.bound))) for i, c in enumerate(self.found) if c.whole is None]

    def bound_jointly(self, cpsat: CpSat) -> None:
        """Bound all groups together by the room that they share. Nothing is done once a run has found no prices: room then
        never limits a group, or the program is too large for simplex."""
        wholes, remaining_seconds = self._wholes(), cpsat.deadline.remaining()
        total = sum(bound for _, bound in wholes)
        if self._shared is not None and (total == self._shared[0] or self.prices is None or remaining_seconds > self._share_at):
            return
        if self._room is None:
            self._room = SharedRoom(
                self.cluster, [self._node_points(g) for g in range(self.cluster.n_classes)], self.eligibility, self.unplaced
            )
            self._ceilings = [(self._flat(c.classes, moves=False), self._ceiling_beyond_nodes(c.classes)) for c, _ in wholes]
        groups = [GroupBound(c.classes, bound, *ceiling) for (c, bound), ceiling in zip(wholes, self._ceilings, strict=True)]
        joint_bound = self._room.bound(groups, cpsat)
        before = total if self._shared is None else self._shared[1]
        self._shared = total, before if joint_bound is None else min(before, joint_bound)
        self._share_at = cpsat.deadline.remaining() - self.share_every * (remaining_seconds - cpsat.deadline.remaining())

    def loss(self, i: int, counts: Ints) -> int:
        """Return by how many points a placement int64[G, N] falls short of a group's bound. For a group with unproved parts,
        return the points that the parts lose by repelling each other."""
        component = self.found[i]
        upper = component.bound
        if component.split:
            inside = [self.found[k] for k in self._parts[i]]
            if all(part.proved for part in inside):
                upper = min(upper, sum(part.bound for part in inside))
            else:
                upper = sum(self.worth(part.classes, counts[part.classes]) for part in inside)
        return upper - self.worth(component.classes, counts[component.classes])

    def without_moves(self) -> Components:
        """Return the same groups with free moves. The models become looser but far easier to solve."""
        found = copy(self)
        found._room = found._shared = None
        found.moves, found.found = None, [ClassComponent(c.classes, c.bound, c.whole, c.split, proved=c.proved) for c in self.found]
        return found

    def worth(self, classes: Sequence[int], counts: Ints) -> int:
        """Return the points of a placement int64[len(classes), N] of these classes."""
        points = self.objective.total(self.objective.families(SparsePlacement(counts, classes), classes))
        return points if self.moves is None else points - self.moves.of(classes, counts)

    def _connected(self, classes: Sequence[int]) -> bool:
        """Return whether a preference ties any of these classes to pods of these classes."""
        o, inside = self.objective, set(classes)
        return any(
            any(not inside.isdisjoint(o.terms[t].matches) for t in o.owned[g])
            or any(not inside.isdisjoint(o.terms[t].own) for t in o.matching[g])
            or bool(o.feeds[g] or self.cluster.classes[g].spread or g in o.involved)
            for g in classes
        )

    def _flat(self, classes: Sequence[int], *, moves: bool = True) -> int:
        """Return the upper bound on the points of these classes from single nodes; ``moves``: whether moves cost points."""
        found, counted = 0, self.moves if moves else None
        for g in classes:
            key = g, counted is None
            found += self._alone[key] if key in self._alone else self._alone.setdefault(key, self._nodes_alone(g, counted))
        return found

    def _nodes_alone(self, g: int, moves: MoveCosts | None) -> int:
        """Return the bound on the points of one class from single nodes. If pods may stay unplaced, nodes with negative
        points stay empty."""
        points = self._node_points(g)
        if not points.any():
            return 0
        eligibility = self.eligibility[g]
        wanted = int(min(self.cluster.count[g], eligibility.sum()))
        free = self.unplaced.get(int(self.cluster.priority[g]), 0)
        if moves is not None:
            home = np.minimum(eligibility, moves.start[g])
            eligibility, points = np.append(home, eligibility - home), np.append(points, points - moves.each[g])
        total = 0
        for n in np.argsort(-points, kind="stable").tolist():
            k = min(wanted, int(eligibility[n]))
            if k <= 0:
                continue
            if points[n] < 0 and free:
                break
            total += k * int(points[n])
            wanted -= k
            if not wanted:
                break
        return total

    def _node_points(self, g: int) -> Ints:
        """Return int64[N], an upper bound on the points of one pod of class g on each node."""
        points = self.objective.node_points(g)
        for family in self.objective.shapes_of(g):
            points = points + family.multiplier * family.node_bound(g)
        return points

    def _ceiling(self, classes: Sequence[int]) -> int:
        """Return a bound that needs no search."""
        return self._flat(classes) + self._ceiling_beyond_nodes(classes)

    def _ceiling_beyond_nodes(self, classes: Sequence[int]) -> int:
        """Return the rest of the ceiling: all pulls in full, but only the repulsion that too few domains force on equal pods."""
        inside = set(classes)
        own = (f.multiplier * f.bound(inside, self._count) for f in self.objective.members if not inside.isdisjoint(f.involved))
        return self._pairs_ceiling(classes) + sum(own)

    def _pairs_ceiling(self, classes: Sequence[int], *, single_nodes: bool = False) -> int:
        """Return the part of the ceiling from weighted terms. With ``single_nodes``, count only terms whose domains are
        single nodes."""
        o, inside, count = self.objective, set(classes), self._count
        total = 0
        for t in sorted({t for g in classes for t in o.owned[g]} & self._paired):
            term = o.terms[t]
            if single_nodes and not single(term.codes, term.size):
                continue
            matched = self._meet(term)
            for g in sorted(inside.intersection(term.own)):
                weight = term.multiplier * term.own[g]
                if weight > 0:
                    total += weight * int(count[g]) * max(0, matched - int(g in term.matches))
                elif g in term.matches and not self.unplaced.get(int(self.cluster.priority[g]), 0):
                    total += weight * self._crowding(g, term)
        return total

    def _meet(self, term: PreferenceTerm) -> int:
        """Return the upper bound on the pods matched by a term that one domain can hold."""
        matching = sorted(term.matches)
        together = int(self._count[matching].sum())
        if not any(weight > 0 for weight in term.own.values()) or len(matching) > MAX_PULL_CLASSES:
            return together
        room = self.eligibility[matching].sum(axis=0)
        return min(together, int(domain_sum(term.codes, term.size, np.minimum(room, np.maximum(self.cluster.slots, 0))).max(initial=0)))

    def _crowding(self, g: int, term: PreferenceTerm) -> int:
        """Return the fewest ordered pairs of pods of a class that share a domain when all pods are placed."""
        room = self.eligibility[g]
        if room[term.codes < 0].any():
            return 0
        per_domain = domain_sum(term.codes, term.size, room)
        pods, domains = int(min(self.cluster.count[g], room.sum())), int(np.count_nonzero(per_domain))
        each, more = divmod(pods, max(1, domains))
        return each * (each - 1) * (domains - more) + (each + 1) * each * more

    def solve(self, component: ClassComponent, cpsat: CpSat, seconds: float, hint: Ints, value: int) -> None:
        """Tighten the bound of a group and look for a placement of the group alone, with ``seconds`` per model.

        A small linear program over domains comes first, then coarse models, then the full model. ``hint``:
        int64[len(classes), N], the current placement; ``value``: its points."""
        component.turns += 1
        if component.turns == 1:
            self._by_domains(component, cpsat)
            if component.split or component.bound <= value:
                return  # its parts come first, or no gain is possible
        if not component.modelled:
            component.modelled = True
            if self._merge(component):
                component.coarse = self._coarse(component)
        if component.coarse is not None and (component.turns % FULL_MODEL_INTERVAL or component.large):
            self._coarsely(component, component.coarse, cpsat, seconds, hint)
        elif component.encoding is not None or self._encode(component):
            self._fully(component, cpsat, seconds, hint, value)
        elif component.coarse is None:
            component.proved = True

    def _by_domains(self, component: ClassComponent, cpsat: CpSat) -> None:
        if len(component.classes) < MIN_PROGRAM_CLASSES and not component.split:
            return
        # OR-tools' linear solvers take longer to import than many a snapshot to solve
        domains = DomainProgram(self.cluster, self.objective, self.eligibility, self.unplaced, component.classes)
        made = domains.program()
        if made is None:
            return
        seconds = min(PROGRAM_SECONDS, cpsat.deadline.remaining())
        deterministic = cpsat.options.deterministic
        bound = best_bound(*made, seconds=seconds, deterministic=deterministic, stop=cpsat.stop)
        cpsat.deadline.charge(len(made[0].rows) / BUILD_NONZEROS_PER_SECOND)
        component.bound = min(component.bound, bound + domains.other_points)

    def _fully(self, component: ClassComponent, cpsat: CpSat, seconds: float, hint: Ints, value: int) -> None:
        encoding = component.encoding
        assert encoding is not None
        known = hint if component.value is None or component.counts is None or value > component.value else component.counts
        known = in_order(known, component.kinds)
        encoding.hint({cell: int(known[cell]) for cell in encoding.x})
        answer = cpsat.run(encoding.model, seconds, quick=True)
        if answer.bound is not None and not encoding.zoneless:
            component.bound = min(component.bound, answer.bound)
        if answer.solution is not None and component.points is not None:
            self._note(component, encoding.counts(answer.solution), component.points.value(answer.solution))

    def pools(self, component: ClassComponent) -> Ints:
        """Return int64[N]: equal numbers for nodes that differ for a group only in eligibility and room. For trial placements,
        not for models: volumes, NUMA zones and devices are ignored."""
        if not len(component.pools):
            sub = self.cluster.restricted(component.classes)
            component.pools = alike_nodes(sub, self.objective, component.classes, self.eligibility[component.classes])[1]
        return component.pools

    def _merge(self, component: ClassComponent) -> bool:
        """Store lists of alike nodes in ``component``. Return False if nothing merges, or if the classes or the size forbid a model."""
        classes, eligibility = component.classes, self.eligibility[component.classes]
        sub = self.cluster.restricted(classes)
        if any(cls.claims or cls.containers is not None or cls.devices is not None for cls in sub.classes):
            return False
        component.kinds, component.pools = alike_nodes(sub, self.objective, classes, eligibility)
        if len(component.kinds) == self.cluster.n_nodes:
            return False
        return sum(int(np.count_nonzero(eligibility[:, kind].any(axis=1))) for kind in component.kinds) <= MAX_FULL_MODEL_VARIABLES

    def _coarse(self, component: ClassComponent) -> Coarse | None:
        """Return the next finer coarse model of a group; None after the finest. Points that it omits go to ``component.other_points``."""
        classes, before = component.classes, component.coarse
        sub = self.cluster.restricted(classes)
        rows = np.stack([self.objective.node_points(g) for g in classes])
        objective = Objective(sub, rules.build(sub))
        while component.fineness < len(coarse_node_patterns.PART_VARIABLE_LIMITS):
            coarse = Coarse(sub, rows, self.eligibility[classes], component.kinds, self.unplaced)
            if self.moves is not None:
                self.moves.charge(classes, coarse.encoding, component.kinds, coarse.points)
            omitted = coarse.add_patterns(objective, component.pools, coarse_node_patterns.PART_VARIABLE_LIMITS[component.fineness])
            component.other_points = self._pairs_ceiling([classes[g] for g in omitted], single_nodes=True)
            component.fineness += 1
            if before is None or coarse.size != before.size:
                return coarse
        return None

    def _coarsely(self, component: ClassComponent, coarse: Coarse, cpsat: CpSat, seconds: float, hint: Ints) -> None:
        """Bound a group by its coarse model, and record the placement that it suggests. Omitted points count at their upper bound."""
        coarse.hint(hint)
        answer = cpsat.run(coarse.encoding.model, seconds, quick=True)
        if answer.bound is not None:
            component.bound = min(component.bound, answer.bound + component.other_points)
        if answer.solution is not None:
            counts = coarse.deal(answer.solution, component.pools)
            if (counts.sum(axis=1) == hint.sum(axis=1)).all():
                self._note(
                    component,
                    counts,
                    self.worth(component.classes, counts),
                    unverified=coarse.drops or not coarse.obeys(counts, answer.solution, component.pools),
                )
        if answer.status == cp_model.OPTIMAL:
            component.coarse = None if component.proved else self._coarse(component)

    def _note(self, component: ClassComponent, counts: Ints, value: int, *, unverified: bool = False) -> None:
        if component.value is None or value > component.value or (component.unverified and not unverified):
            component.value, component.counts, component.unverified = value, counts, unverified
        component.proved = not component.unverified and component.value >= component.bound

    def _encode(self, component: ClassComponent) -> bool:
        """Build the full model of a group, and store it in ``component``. Return False if it would have too many variables."""
        sub = self.cluster.restricted(component.classes)
        active = rules.build(sub)
        part = self._part(component, sub) if component.kinds else None
        cells = int(np.count_nonzero(self.eligibility[component.classes]))
        if part is not None:
            cells = sum(len(nodes) for nodes, _ in part.cells.values())
        component.large = cells > MAX_FULL_MODEL_VARIABLES
        if component.large:
            return False
        encoding = build_model(sub, active, part, eligibility=self.eligibility[component.classes])
        break_symmetry(encoding, component.kinds)
        component.points = objective_encoding.encode(encoding, Objective(sub, active))
        encoding.hold(self.unplaced)
        if self.moves is not None:
            every = component.kinds or list(np.arange(self.cluster.n_nodes, dtype=np.int64)[:, None])
            self.moves.charge(component.classes, encoding, every, component.points)
        encoding.model.maximize(component.points.expression())
        component.encoding = encoding
        return True

    def _part(self, component: ClassComponent, sub: Cluster) -> Cells:
        """Return the cells of the nodes that a group can need: of alike nodes, as many as the group has pods."""
        eligibility = self.eligibility[component.classes]
        fit = np.minimum(sub.count, eligibility.sum(axis=1))
        nodes = np.sort(np.concatenate([kind[: int(fit.sum())] for kind in component.kinds]))
        cells = {}
        for g, row in enumerate(eligibility):
            mine = nodes[row[nodes] > 0]
            cells[g] = mine.astype(np.int32), row[mine]
        return Cells(cells, dict(enumerate(fit.tolist())))
