"""A bound for the soft tier: the cluster falls into groups of classes that no preference and no hard rule ties together, but for the
room they share. Each group alone in the cluster can do no worse than beside the others, so the sum of their optima is a bound; the
optimum of a group is also a good place to put it.

This is the Lagrangian relaxation of the capacity rows at multiplier 0 (Geoffrion, doi:10.1007/BFb0120690).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from models.cluster import Cluster, Ints, domain_sum
from solver import rules, soft_encoding
from solver.cpsat import CpSat
from solver.encoding import Encoding
from solver.objective import Objective, Term
from solver.partition import connected
from solver.rules.base import Rule
from solver.rules.numa import NodeResourceTopologyMatch
from solver.soft_points import Points

#: Larger groups are not solved alone: they are nearly the whole model.
MOST_VARIABLES = 30_000


@dataclass
class Component:
    """``classes``: indices into the cluster. ``bound``: weighted points that they cannot exceed; ``counts``: int64[len(classes), N], the
    best placement found for them alone, and its ``value``; ``proved``: the bound is the value."""

    classes: list[int]
    bound: int
    counts: Ints | None = None
    value: int | None = None
    proved: bool = False
    encoding: Encoding | None = field(default=None, repr=False)
    points: Points | None = field(default=None, repr=False)


def groups(objective: Objective, active: Sequence[Rule]) -> list[list[int]]:
    """Classes tied by a weighted term, a soft constraint, hints between containers, or a hard rule other than room."""
    links = [sorted(objective.terms[t].matches | objective.terms[t].own.keys()) for t in objective.pairs]
    links += [tally.owners + tally.matches.tolist() for tally in objective.tallies]
    links += [link for rule in active if not isinstance(rule, NodeResourceTopologyMatch) for link in rule.order_links()]
    found = objective.containers
    for predicate in found.predicates(found.involved):
        links.append(
            [g for g, _, _ in found.owners(predicate, found.involved)] + [g for g, _ in found.satisfying(predicate, found.involved)]
        )
    return sorted(connected([link for link in links if link], range(objective.cluster.n_classes)), key=len)


class Components:
    """The groups of a cluster. ``left``: per priority, how many pods that fit somewhere may stay unplaced."""

    def __init__(self, cluster: Cluster, objective: Objective, limits: Ints, left: dict[int, int]) -> None:
        self.cluster, self.objective, self.limits, self.left = cluster, objective, limits, left
        active = rules.build(cluster)
        self._paired = set(objective.pairs)
        self._count = np.minimum(cluster.count, limits.sum(axis=1))
        self.found = [Component(classes, self._ceiling(classes)) for classes in groups(objective, active)]
        for component in self.found:
            component.proved = not self._worth(component)

    @property
    def bound(self) -> int:
        return sum(c.bound for c in self.found)

    def _worth(self, component: Component) -> bool:
        """Whether solving it can lower its bound."""
        return component.bound != self._flat(component.classes) or any(self._tied(g) for g in component.classes)

    def _tied(self, g: int) -> bool:
        o = self.objective
        tied = any(t in self._paired for t in (*o.owned[g], *o.matching[g])) or o.feeds[g] or g in o.containers.involved
        return bool(tied or self.cluster.classes[g].spread)

    def _flat(self, classes: Sequence[int]) -> int:
        return sum(self._nodes_alone(g) for g in classes)

    def _nodes_alone(self, g: int) -> int:
        """The most that node points alone give to the pods of a class that must be placed, best nodes first; or that all may stay away."""
        points = self.objective.node_points(g) if g not in self.objective.containers.involved else self._with_containers(g)
        if not points.any():
            return 0
        limits = self.limits[g]
        wanted = int(min(self.cluster.count[g], limits.sum()))
        free = self.left.get(int(self.cluster.priority[g]), 0)
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

    def _with_containers(self, g: int) -> Ints:
        """Node points of a class with all its own hints met as well as can be."""
        found = self.objective.containers
        levels = found.levels
        inner = sum(max(w * levels.sameZone, w * levels.sameNode) for _, _, w in found.class_of(g).inner)
        multiplier = self.objective.multipliers["containerAffinity"]
        zoned = np.zeros(self.cluster.n_nodes, dtype=np.int64)
        zoned[list(found.zoned)] = inner
        return np.asarray(self.objective.node_points(g) + multiplier * (found.static(g) + zoned), dtype=np.int64)

    def _ceiling(self, classes: Sequence[int]) -> int:
        """A bound without any search: every pull met in full, no repulsion felt but what too few domains force on equal pods."""
        total = self._flat(classes)
        o, inside, count = self.objective, set(classes), self._count
        for t in sorted({t for g in classes for t in o.owned[g]} & self._paired):
            term = o.terms[t]
            matched = int(count[sorted(term.matches)].sum())
            for g in sorted(inside.intersection(term.own)):
                weight = o.multipliers[term.family] * term.own[g]
                if weight > 0:
                    total += weight * int(count[g]) * (matched - int(g in term.matches))
                elif g in term.matches and not self.left.get(int(self.cluster.priority[g]), 0):
                    total += weight * self._crowding(g, term)
        found = o.containers
        mine = [g for g in found.involved if g in inside]
        for predicate in found.predicates(mine):
            satisfying = sum(int(count[g]) for g, _ in found.satisfying(predicate, mine))
            for g, _, weight in found.owners(predicate, mine):
                gain = max(weight * found.levels.sameZone, weight * found.levels.sameNode, 0)
                total += o.multipliers["containerAffinity"] * gain * int(count[g]) * satisfying
        return total

    def _crowding(self, g: int, term: Term) -> int:
        """Ordered pairs of pods of a class that share a domain at least, all of them being placed."""
        room = self.limits[g]
        if room[term.codes < 0].any():
            return 0
        per_domain = domain_sum(term.codes, term.size, room)
        pods, domains = int(min(self.cluster.count[g], room.sum())), int(np.count_nonzero(per_domain))
        each, more = divmod(pods, max(1, domains))
        return each * (each - 1) * (domains - more) + (each + 1) * each * more

    def solve(self, component: Component, cpsat: CpSat, seconds: float) -> None:
        """Tighten the bound of a group, and find a placement for it alone."""
        if component.encoding is None:
            if int(np.count_nonzero(self.limits[component.classes])) > MOST_VARIABLES:
                component.proved = True
                return
            sub = self.cluster.restricted(component.classes)
            active = rules.build(sub)
            encoding = Encoding(sub, active)
            component.points = soft_encoding.encode(encoding, Objective(sub, active))
            for priority in sorted(set(sub.priority.tolist())):
                members = [encoding.left[g] for g in np.flatnonzero(sub.priority == priority).tolist()]
                encoding.model.add(encoding.sum(members) <= self.left.get(priority, 0))
            encoding.model.maximize(component.points.expression())
            component.encoding = encoding
        encoding = component.encoding
        answer = cpsat.run(encoding.model, seconds)
        if answer.bound is not None and not encoding.zoneless:
            component.bound = min(component.bound, answer.bound)
        if answer.solution is not None and component.points is not None:
            counts = encoding.counts(answer.solution)
            value = component.points.value(answer.solution)
            if component.value is None or value > component.value:
                component.value, component.counts = value, counts
            component.proved = component.value >= component.bound
