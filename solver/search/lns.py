"""Large-neighbourhood search: take some pods out and put them back optimally with CP-SAT, with all other pods fixed.

A neighbourhood is a small exact model around the fixed pods (:class:`kubestow.solver.cpsat.model.Cells`): their room,
their domain counts and their constraints are constants. A repair is kept if no tier gets worse. Source of the method:
Shaw, doi:10.1007/3-540-49481-2_30."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from kubestow.models.cluster.cluster import Ids, Ints
from kubestow.solver.cpsat.cells import Cells
from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.cpsat.run import CpSat, add_hint
from kubestow.solver.objective import encoding as objective_encoding
from kubestow.solver.ortools import cp_model
from kubestow.solver.rules.placement_model import build_model
from kubestow.solver.search.local_search import LocalSearch
from kubestow.solver.search.neighbourhoods import Neighbourhood, Neighbourhoods

NEIGHBOURHOOD_SECONDS = 1.0  #: Time limit of one neighbourhood.
#: Probability that the next pod to place has the highest priority among the unplaced ones (which may fit nowhere).
HIGHEST_PRIORITY_PROBABILITY = 0.8
MAX_OTHER_CLASSES = 20  #: Further classes with unplaced pods in a neighbourhood.
#: Weight of all lower tiers above which the model no longer separates tiers. The result is still compared tier by tier.
MAX_TIER_WEIGHT = 2**40
#: Deterministic seconds charged per neighbourhood, because CP-SAT charges almost none for small ones.
MIN_CHARGE_SECONDS = 5e-3
BUILD_SECONDS_PER_VARIABLE = 2e-5  #: Deterministic seconds charged for building a model.


class Lns:
    """Large-neighbourhood search on ``search``: the state that is improved, whose moves keep the rules in step."""

    def __init__(self, search: LocalSearch, cpsat: CpSat) -> None:
        self.search, self.cpsat = search, cpsat
        self.cluster = search.cluster
        self.neighbourhoods = Neighbourhoods(search, search.rng)

    def improve(self, over: Callable[[], bool], on_better: Callable[[int], None] | None = None) -> int:
        """Improve the soft tier until ``over`` returns True. Return the gain."""
        gained = 0
        while not (over() or self.cpsat.done()):
            self.cpsat.deadline.charge(MIN_CHARGE_SECONDS)
            chosen = self.neighbourhoods.draw()
            if chosen is None:
                if not self.search.pairs:
                    break
                continue
            started = self._now()
            gain, solved = self.repair(chosen)
            self.neighbourhoods.learn(chosen.kind, gain, self._now() - started, solved=solved)
            gained += gain
            if gain and on_better is not None:
                on_better(gained)
        self.search.refresh()
        return gained

    def place(self, wanted: Ints, over: Callable[[], bool]) -> None:
        """Place unplaced pods until none remains or ``over`` returns True.

        Never place fewer pods of a higher priority for more of a lower one.

        Args:
            wanted: Pods of each class that can be placed, int64[G].
        """
        while not (over() or self.cpsat.done()):
            unplaced = wanted - self.search.counts.sum(axis=1)
            waiting = np.array([g for g in np.flatnonzero(unplaced > 0).tolist() if self.search.loose(g)], dtype=np.int64)
            if not len(waiting):
                break
            self.cpsat.deadline.charge(MIN_CHARGE_SECONDS)
            first = self.cluster.priority[waiting] == self.cluster.priority[waiting].max()
            g = int(self.search.rng.choice(waiting[first] if self.search.rng.random() < HIGHEST_PRIORITY_PROBABILITY else waiting))
            highest = self.cluster.priority[g]
            gang = self.cluster.classes[g].gang
            if gang is None:
                chosen = self.neighbourhoods.room_for(g)
                others = [h for h in waiting.tolist() if h != g and self.cluster.priority[h] <= highest]
                extra = {h: int(unplaced[h]) for h in [g, *self.search.rng.permutation(others).tolist()[:MAX_OTHER_CLASSES]]}
            else:
                chosen = self.neighbourhoods.room_for_gang(gang)
                extra = {h: int(unplaced[h]) for h in self.cluster.gangs[gang].classes if unplaced[h] > 0}
            started = self._now()
            gain, solved = self._insert(chosen, extra, int(highest))
            self.neighbourhoods.learn(chosen.kind, gain, self._now() - started, solved=solved)
        self.search.refresh()

    def _insert(self, chosen: Neighbourhood, extra: Mapping[int, int], priority: int) -> tuple[int, bool]:
        """Solve a neighbourhood with unplaced pods added, and apply the result.

        Pods of higher priorities keep a place, and the priority does not lose pods. Pods of lower priorities may become unplaced.

        Args:
            chosen: The neighbourhood, whose free pods may move.
            extra: Unplaced pods of each class that may be placed.
            priority: The priority whose additional pods are counted.

        Returns:
            The additional pods placed of this priority, and True if the solver ended with a proof.
        """
        search = self.search
        search.take_out(chosen.free)
        part = self._part(chosen, extra)
        encoding = build_model(self.cluster, search.rules, part)
        self.cpsat.deadline.charge(BUILD_SECONDS_PER_VARIABLE * len(encoding.x))
        tiers: dict[int, list[int]] = {}
        for g in encoding.unplaced:
            tiers.setdefault(int(self.cluster.priority[g]), []).append(g)
        terms, weights = [], []
        lower, weight = 0, 1  # maximum total weight of the lower tiers, and weight of a pod of the last one
        for p, classes in sorted(tiers.items()):
            unplaced = [encoding.unplaced[g] for g in classes]
            if p > priority:
                encoding.model.add(encoding.sum(unplaced) == 0)
                continue
            weight = lower + 1 if lower < MAX_TIER_WEIGHT else weight
            lower += weight * sum(part.pods[g] for g in classes)
            terms += unplaced
            weights += [weight] * len(unplaced)
            if p == priority:
                encoding.model.add(encoding.sum(unplaced) <= sum(extra.get(g, 0) for g in classes))
        encoding.model.minimize(encoding.weighted_sum(terms, weights))
        encoding.hint(chosen.free)
        answer = self.cpsat.run(encoding.model, NEIGHBOURHOOD_SECONDS, quick=True)
        placed = chosen.free if answer.solution is None else encoding.placed(answer.solution)

        def rank(pods: Mapping[tuple[int, int], int]) -> dict[int, int]:
            inserted = dict.fromkeys(sorted({priority, *tiers}, reverse=True), 0)
            for (g, _), k in pods.items():
                inserted[int(self.cluster.priority[g])] += k
            return inserted

        before, after = rank(chosen.free), rank(placed)
        if tuple(after.values()) < tuple(before.values()):
            placed, after = chosen.free, before
        search.put_back(placed)
        return max(0, after[priority] - before[priority]), answer.status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)

    def repair(self, chosen: Neighbourhood) -> tuple[int, bool]:
        """Solve one neighbourhood and apply the result if it loses no points.

        Returns:
            The points gained, and True if the solver ended with a proof.
        """
        search = self.search
        before = search.take_out(chosen.free)
        encoding = build_model(self.cluster, search.rules, self._part(chosen))
        self.cpsat.deadline.charge(BUILD_SECONDS_PER_VARIABLE * len(encoding.x))
        for unplaced in encoding.unplaced.values():
            encoding.model.add(unplaced == 0)
        encoding.model.maximize(self.points(encoding).expression())
        add_hint(encoding.model, self.cpsat.assignment(encoding, chosen.free, objective=True) or ())
        answer = self.cpsat.run(encoding.model, NEIGHBOURHOOD_SECONDS, quick=True)
        placed = chosen.free
        if answer.solution is not None:
            placed = encoding.placed(answer.solution)
        gain = search.put_back(placed) - before
        if gain < 0:  # effects outside the model, or an interrupted solve, can lower the value: undo
            search.take_out(placed)
            search.put_back(chosen.free)
            gain = 0
        return gain, answer.status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)

    def points(self, encoding: PlacementModel) -> Points:
        """Return the objective of a neighbourhood's model, given the pods that stay."""
        return objective_encoding.encode(encoding, self.search.objective, self.search.soft)

    def _now(self) -> float:
        """Return seconds since an arbitrary origin, by the clock or deterministic."""
        return -self.cpsat.deadline.remaining()

    def _part(self, chosen: Neighbourhood, extra: Mapping[int, int] | None = None) -> Cells:
        pods = dict(extra or {})
        for (g, _), k in chosen.free.items():
            pods[g] = pods.get(g, 0) + k
        return Cells({g: self._caps(g, k, chosen.nodes, chosen.free) for g, k in pods.items()}, pods)

    def _caps(self, g: int, pods: int, nodes: Ints, free: Mapping[tuple[int, int], int]) -> tuple[Ids, Ints]:
        """Return the nodes among ``nodes`` that accept pods of a class, and the maximum number of pods on each.

        Args:
            pods: Number of pods of the class in the neighbourhood.
        """
        caps = np.minimum(self.search.eligibility[g][nodes], pods)
        for rule in self.search.rules:
            caps = np.minimum(caps, rule.room(g)[nodes] if rule.local else rule.most(g)[nodes])
            if not rule.local:
                caps[rule.closed(g)[nodes]] = 0
        inside = caps > 0
        return nodes[inside].astype(np.int32), caps[inside]
