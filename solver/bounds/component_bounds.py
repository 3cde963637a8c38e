"""A bound for the soft tier: the cluster falls into groups of classes that no preference and no hard rule ties together, but for the
room they share. Each group alone in the cluster can do no worse than beside the others, so the sum of their optima is a bound; the
optimum of a group is also a good place to put it. A group falls into parts that only repel each other: what they lose by that is at most
nothing, so the sum of their bounds is one of the group as well.

This is the Lagrangian relaxation of the capacity rows at multiplier 0 (Geoffrion, doi:10.1007/BFb0120690).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints, domain_sum
from kubestow.solver import rules
from kubestow.solver.bounds.alike_nodes import alike_nodes, break_symmetry, in_order
from kubestow.solver.bounds.class_groups import groups, parts
from kubestow.solver.bounds.component import Component
from kubestow.solver.bounds.shared_room import GroupBound, RoomPrices, SharedRoom
from kubestow.solver.cpsat.cells import Cells
from kubestow.solver.objective.preferences import Objective, PreferenceTerm
from kubestow.solver.objective.sparse_placement import Placed
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.batch_quota import single

if TYPE_CHECKING:  # ortools takes longer to import than these bounds without any search to find
    from kubestow.solver.bounds.coarse_model import Coarse
    from kubestow.solver.bounds.move_costs import MoveCosts
    from kubestow.solver.cpsat.run import CpSat

#: Classes of a group for which a linear program comes before models: of few classes these are solved as soon.
PROGRAM_FROM = 8
#: While its coarse models have more to say, every so manieth look at a group is for its full model.
FULL_EVERY = 3
#: A pull towards more classes than this is not bounded by what a domain can hold.
MANY = 50
#: Seconds at most for the linear program over domains.
PATIENCE = 5.0
#: Nonzeros of such a program for which a deterministic second is counted.
NONZEROS_PER_SECOND = 200_000
#: Larger groups are not solved alone: they are nearly the whole model.
MOST_VARIABLES = 30_000


class Components:
    """The groups of a cluster. ``left``: per priority, how many pods that fit somewhere may stay unplaced; ``moves``: what running pods
    cost that move; ``active``: the rules in any state, made here if there are none. ``share_every``: how many times as long as bounding all
    together took it is not done again."""

    share_every = 30

    def __init__(
        self,
        cluster: Cluster,
        objective: Objective,
        limits: Ints,
        left: dict[int, int],
        moves: MoveCosts | None = None,
        active: Sequence[Rule] = (),
    ) -> None:
        self.cluster, self.objective, self.limits, self.left, self.moves = cluster, objective, limits, left, moves
        self._paired, self._count = set(objective.pairs), np.minimum(cluster.count, limits.sum(axis=1))
        self._alone: dict[tuple[int, bool], int] = {}  # what node points alone give to a class, with and without the cost of moves
        self._room: SharedRoom | None = None
        self._ceilings: list[tuple[int, int]] = []  # of each group what single nodes give at most, and what else does
        self._share_at = float("inf")  # when no more time is left groups are bounded together again
        self._shared: tuple[int, int] | None = None  # what groups added up to when they were bounded together, and that bound
        linking = active or rules.linking(cluster)
        self.found = [Component(classes, self._ceiling(classes)) for classes in groups(objective, linking)]
        whole = {g: i for i, component in enumerate(self.found) for g in component.classes}
        self._parts: dict[int, list[int]] = {}  # of each group that has some: their indices
        for part in parts(objective, linking):
            group = self.found[i := whole[part[0]]]
            if len(part) < len(group.classes):
                group.split = True
                self._parts.setdefault(i, []).append(len(self.found))
                self.found.append(Component(part, self._ceiling(part), whole=i))
        for component in self.found:
            # Solving it cannot lower its bound.
            component.proved = component.bound == self._flat(component.classes) and not self._tied(component.classes)

    @property
    def bound(self) -> int:
        """Points that no placement exceeds: what groups add up to, or what is known of them together."""
        total = sum(bound for _, bound in self._wholes())
        return total if self._shared is None else min(total, self._shared[1])

    @property
    def prices(self) -> RoomPrices | None:
        """What room is worth where groups compete for it; None where they do not, or before :meth:`share`."""
        return None if self._room is None else self._room.prices

    def _wholes(self) -> list[tuple[Component, int]]:
        """The groups, without their parts, and their bounds."""
        inside: dict[int | None, int] = {}
        for part in self.found:
            inside[part.whole] = inside.get(part.whole, 0) + part.bound
        return [(c, min(c.bound, inside.get(i, c.bound))) for i, c in enumerate(self.found) if c.whole is None]

    def share(self, cpsat: CpSat) -> None:
        """Bound all groups together, by the room that they share. Once it has found no prices nothing more is asked: where room limits
        nobody it does not later either, and of programs that are too large for simplex prices are not known."""
        wholes, left = self._wholes(), cpsat.deadline.left()
        total = sum(bound for _, bound in wholes)
        if self._shared is not None and (total == self._shared[0] or self.prices is None or left > self._share_at):
            return
        if self._room is None:
            self._room = SharedRoom(self.cluster, [self._node_points(g) for g in range(self.cluster.n_classes)], self.limits, self.left)
            self._ceilings = [(self._flat(c.classes, moves=False), self._beside(c.classes)) for c, _ in wholes]
        groups = [GroupBound(c.classes, bound, *ceiling) for (c, bound), ceiling in zip(wholes, self._ceilings, strict=True)]
        found = self._room.bound(groups, cpsat)
        before = total if self._shared is None else self._shared[1]
        self._shared = total, before if found is None else min(before, found)
        self._share_at = cpsat.deadline.left() - self.share_every * (left - cpsat.deadline.left())

    def loss(self, i: int, counts: Ints) -> int:
        """Return the points that a group has less than its bound in a placement int64[G, N]; of one with parts, that these lose by each
        other as long as more may be proved of them."""
        component = self.found[i]
        most = component.bound
        if component.split:
            inside = [self.found[k] for k in self._parts[i]]
            if all(part.proved for part in inside):
                most = min(most, sum(part.bound for part in inside))
            else:
                most = sum(self.worth(part.classes, counts[part.classes]) for part in inside)
        return most - self.worth(component.classes, counts[component.classes])

    def without_moves(self) -> Components:
        """Return the same groups for models in which moves cost nothing: looser, but far easier."""
        found = copy(self)
        found._room = found._shared = None
        found.moves, found.found = None, [Component(c.classes, c.bound, c.whole, c.split, proved=c.proved) for c in self.found]
        return found

    def worth(self, classes: Sequence[int], counts: Ints) -> int:
        """Return the points of a placement int64[len(classes), N] of some classes."""
        points = self.objective.total(self.objective.families(Placed(counts, classes), classes))
        return points if self.moves is None else points - self.moves.of(classes, counts)

    def _tied(self, classes: Sequence[int]) -> bool:
        """Whether something ties one of these classes to its own pods or to another one of them."""
        o, inside = self.objective, set(classes)
        return any(
            any(not inside.isdisjoint(o.terms[t].matches) for t in o.owned[g])
            or any(not inside.isdisjoint(o.terms[t].own) for t in o.matching[g])
            or bool(o.feeds[g] or self.cluster.classes[g].spread or g in o.containers.involved)
            for g in classes
        )

    def _flat(self, classes: Sequence[int], *, moves: bool = True) -> int:
        """``moves``: whether what they cost counts."""
        found, counted = 0, self.moves if moves else None
        for g in classes:
            key = g, counted is None
            found += self._alone[key] if key in self._alone else self._alone.setdefault(key, self._nodes_alone(g, counted))
        return found

    def _nodes_alone(self, g: int, moves: MoveCosts | None) -> int:
        """The most that node points alone give to the pods of a class that must be placed, best nodes first; or that all may stay away."""
        points = self._node_points(g)
        if not points.any():
            return 0
        limits = self.limits[g]
        wanted = int(min(self.cluster.count[g], limits.sum()))
        free = self.left.get(int(self.cluster.priority[g]), 0)
        if moves is not None:
            home = np.minimum(limits, moves.start[g])
            limits, points = np.append(home, limits - home), np.append(points, points - moves.each[g])
        total = 0
        for n in np.argsort(-points, kind="stable").tolist():
            k = min(wanted, int(limits[n]))
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
        """Node points of a class, with all its own hints between containers met as well as can be."""
        if g not in self.objective.containers.involved:
            return self.objective.node_points(g)
        found = self.objective.containers
        levels = found.levels
        inner = sum(max(w * found.most, w * levels.sameNode) for _, _, w in found.class_of(g).inner)
        multiplier = self.objective.multipliers["containerAffinity"]
        zoned = np.zeros(self.cluster.n_nodes, dtype=np.int64)
        zoned[list(found.zoned)] = inner
        return np.asarray(self.objective.node_points(g) + multiplier * (found.static(g) + zoned), dtype=np.int64)

    def _ceiling(self, classes: Sequence[int]) -> int:
        """A bound without any search."""
        return self._flat(classes) + self._beside(classes)

    def _beside(self, classes: Sequence[int]) -> int:
        """The part of it that does not come from single nodes: every pull met in full, no repulsion felt but what too few domains force on
        equal pods."""
        total = self._pairs_ceiling(classes)
        o, inside, count = self.objective, set(classes), self._count
        found = o.containers
        mine = [g for g in found.involved if g in inside]
        for predicate in found.predicates(mine):
            satisfying = sum(int(count[g]) for g, _ in found.satisfying(predicate, mine))
            for g, _, weight in found.owners(predicate, mine):
                gain = max(weight * found.most, weight * found.levels.sameNode, 0)
                total += o.multipliers["containerAffinity"] * gain * int(count[g]) * satisfying
        return total

    def _pairs_ceiling(self, classes: Sequence[int], *, single_nodes: bool = False) -> int:
        """The part of the weighted terms; ``single_nodes``: of those only whose domains are single nodes."""
        o, inside, count = self.objective, set(classes), self._count
        total = 0
        for t in sorted({t for g in classes for t in o.owned[g]} & self._paired):
            term = o.terms[t]
            if single_nodes and not single(term.codes, term.size):
                continue
            matched = self._meet(term)
            for g in sorted(inside.intersection(term.own)):
                weight = o.multipliers[term.family] * term.own[g]
                if weight > 0:
                    total += weight * int(count[g]) * max(0, matched - int(g in term.matches))
                elif g in term.matches and not self.left.get(int(self.cluster.priority[g]), 0):
                    total += weight * self._crowding(g, term)
        return total

    def _meet(self, term: PreferenceTerm) -> int:
        """Pods that a term matches and that one domain can hold at most."""
        matching = sorted(term.matches)
        together = int(self._count[matching].sum())
        if not any(weight > 0 for weight in term.own.values()) or len(matching) > MANY:
            return together
        room = self.limits[matching].sum(axis=0)
        return min(together, int(domain_sum(term.codes, term.size, np.minimum(room, np.maximum(self.cluster.slots, 0))).max(initial=0)))

    def _crowding(self, g: int, term: PreferenceTerm) -> int:
        """Ordered pairs of pods of a class that share a domain at least, all of them being placed."""
        room = self.limits[g]
        if room[term.codes < 0].any():
            return 0
        per_domain = domain_sum(term.codes, term.size, room)
        pods, domains = int(min(self.cluster.count[g], room.sum())), int(np.count_nonzero(per_domain))
        each, more = divmod(pods, max(1, domains))
        return each * (each - 1) * (domains - more) + (each + 1) * each * more

    def solve(self, component: Component, cpsat: CpSat, seconds: float, hint: Ints, worth: int) -> None:
        """Tighten the bound of a group, and find a placement for it alone; ``hint``: int64[len(classes), N], where it is now, and what
        that is ``worth``. First comes a linear program over domains, then coarse models: they are small, and often say all."""
        component.turns += 1
        if component.turns == 1:
            self._by_domains(component, cpsat)
            if component.split or component.bound <= worth:
                return  # its parts come first, or nothing is left to gain
        if not component.looked:
            component.looked = True
            if self._merge(component):
                component.coarse = self._coarse(component)
        if component.coarse is not None and (component.turns % FULL_EVERY or component.large):
            self._coarsely(component, component.coarse, cpsat, seconds, hint)
        elif component.encoding is not None or self._encode(component):
            self._fully(component, cpsat, seconds, hint, worth)
        elif component.coarse is None:
            component.proved = True

    def _by_domains(self, component: Component, cpsat: CpSat) -> None:
        """Bound a group by what domains hold: a linear program, solved in a moment."""
        if len(component.classes) < PROGRAM_FROM and not component.split:
            return
        # OR-tools' linear solvers take longer to import than many a snapshot to solve
        from kubestow.solver.bounds.domain_program import DomainProgram
        from kubestow.solver.bounds.safe_dual_bounds import best_bound

        domains = DomainProgram(self.cluster, self.objective, self.limits, self.left, component.classes)
        made = domains.program()
        if made is None:
            return
        seconds = min(PATIENCE, cpsat.deadline.left())
        deterministic = cpsat.options.deterministic
        found = best_bound(*made, seconds=seconds, deterministic=deterministic, stop=cpsat.stop)
        cpsat.deadline.charge(len(made[0].rows) / NONZEROS_PER_SECOND)
        component.bound = min(component.bound, found + domains.beside)

    def _fully(self, component: Component, cpsat: CpSat, seconds: float, hint: Ints, worth: int) -> None:
        """Bound a group by its full model."""
        encoding = component.encoding
        assert encoding is not None
        known = hint if component.value is None or component.counts is None or worth > component.value else component.counts
        known = in_order(known, component.kinds)
        encoding.hint({cell: int(known[cell]) for cell in encoding.x})
        answer = cpsat.run(encoding.model, seconds, quick=True)
        if answer.bound is not None and not encoding.zoneless:
            component.bound = min(component.bound, answer.bound)
        if answer.solution is not None and component.points is not None:
            self._note(component, encoding.counts(answer.solution), component.points.value(answer.solution))

    def pools(self, component: Component) -> Ints:
        """Return int64[N]: the same number where nodes differ for a group in limits and room only, as far as no volumes, NUMA zones or
        devices matter: for places to be tried, not for models."""
        if not len(component.pools):
            sub = self.cluster.restricted(component.classes)
            component.pools = alike_nodes(sub, self.objective, component.classes, self.limits[component.classes])[1]
        return component.pools

    def _merge(self, component: Component) -> bool:
        """Find nodes that are alike for a group. False: there are none, or a model of them would be too large."""
        classes, limits = component.classes, self.limits[component.classes]
        sub = self.cluster.restricted(classes)
        if any(cls.claims or cls.containers is not None or cls.devices is not None for cls in sub.classes):
            return False
        component.kinds, component.pools = alike_nodes(sub, self.objective, classes, limits)
        if len(component.kinds) == self.cluster.n_nodes:
            return False
        return sum(int(np.count_nonzero(limits[:, kind].any(axis=1))) for kind in component.kinds) <= MOST_VARIABLES

    def _coarse(self, component: Component) -> Coarse | None:
        """Make the next coarse model of a group, finer than the last one (None: there is none)."""
        from kubestow.solver.bounds.coarse_model import Coarse
        from kubestow.solver.bounds.node_patterns import MOST

        classes, before = component.classes, component.coarse
        sub = self.cluster.restricted(classes)
        rows = np.stack([self.objective.node_points(g) for g in classes])
        objective = Objective(sub, rules.build(sub))
        while component.fineness < len(MOST):
            coarse = Coarse(sub, rows, self.limits[classes], component.kinds, self.left)
            if self.moves is not None:
                self.moves.charge(classes, coarse.encoding, component.kinds, coarse.points)
            omitted = coarse.add_patterns(objective, component.pools, MOST[component.fineness])
            component.beside = self._pairs_ceiling([classes[g] for g in omitted], single_nodes=True)
            component.fineness += 1
            if before is None or coarse.size != before.size:
                return coarse
        return None

    def _coarsely(self, component: Component, coarse: Coarse, cpsat: CpSat, seconds: float, hint: Ints) -> None:
        """Bound a group by its coarse model; what it does not see of single nodes counts as well as it can."""
        from kubestow.solver.cpsat.run import OPTIMAL

        coarse.hint(hint)
        answer = cpsat.run(coarse.encoding.model, seconds, quick=True)
        if answer.bound is not None:
            component.bound = min(component.bound, answer.bound + component.beside)
        if answer.solution is not None:
            counts = coarse.deal(answer.solution, component.pools)
            if (counts.sum(axis=1) == hint.sum(axis=1)).all():
                self._note(
                    component,
                    counts,
                    self.worth(component.classes, counts),
                    wished=coarse.drops or not coarse.obeys(counts, answer.solution, component.pools),
                )
        if answer.status == OPTIMAL:
            component.coarse = None if component.proved else self._coarse(component)  # it has said all

    def _note(self, component: Component, counts: Ints, value: int, *, wished: bool = False) -> None:
        if component.value is None or value > component.value or (component.wished and not wished):
            component.value, component.counts, component.wished = value, counts, wished
        component.proved = not component.wished and component.value >= component.bound

    def _encode(self, component: Component) -> bool:
        """Make the full model of a group, unless it is too large."""
        from kubestow.solver.objective import encoding as objective_encoding
        from kubestow.solver.rules.placement_model import build_model

        sub = self.cluster.restricted(component.classes)
        active = rules.build(sub)
        part = self._part(component, sub) if component.kinds else None
        cells = int(np.count_nonzero(self.limits[component.classes]))
        if part is not None:
            cells = sum(len(nodes) for nodes, _ in part.cells.values())
        component.large = cells > MOST_VARIABLES
        if component.large:
            return False
        encoding = build_model(sub, active, part, limits=self.limits[component.classes])
        break_symmetry(encoding, component.kinds)
        component.points = objective_encoding.encode(encoding, Objective(sub, active))
        encoding.hold(self.left)
        if self.moves is not None:
            every = component.kinds or list(np.arange(self.cluster.n_nodes, dtype=np.int64)[:, None])
            self.moves.charge(component.classes, encoding, every, component.points)
        encoding.model.maximize(component.points.expression())
        component.encoding = encoding
        return True

    def _part(self, component: Component, sub: Cluster) -> Cells:
        """The nodes that a group can need: of nodes that are alike for it, as many as it has pods."""
        limits = self.limits[component.classes]
        fit = np.minimum(sub.count, limits.sum(axis=1))
        nodes = np.sort(np.concatenate([kind[: int(fit.sum())] for kind in component.kinds]))
        cells = {}
        for g, row in enumerate(limits):
            mine = nodes[row[nodes] > 0]
            cells[g] = mine.astype(np.int32), row[mine]
        return Cells(cells, dict(enumerate(fit.tolist())))
