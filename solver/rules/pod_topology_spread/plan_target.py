"""DoNotSchedule constraints in the model of a plan's end state: no domain exceeds maxSkew by more than at the start."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from kubestow.models.cluster.cluster import Ids, Ints, Spread, domain_sum
from kubestow.solver.ortools import cp_model
from kubestow.solver.rules.end_states import EndStateModel, EndStates
from kubestow.solver.rules.pod_topology_spread.rule import PodTopologySpread, SpreadTally


class SkewEncoder:
    """Adds the DoNotSchedule constraints to a model.

    Args:
        rule: PodTopologySpread in the state of the fixed pods.
    """

    def __init__(self, states: EndStates, rule: PodTopologySpread) -> None:
        self.model, self.rule, self.broken = states.model, rule, states.broken
        self.start = states.start.get(rule.name, {})
        self._counters: dict[int, _Counter] = {}

    def run(self) -> None:
        """Add every constraint once, and mark pods on nodes without its key as broken."""
        model = self.model
        guards: dict[tuple[int, int, int], dict[int, Spread]] = {}
        for g in range(self.rule.cluster.n_classes):
            for spread, index in self.rule.own(g):
                if index is not None:
                    guards.setdefault((index, spread.max_skew, spread.min_domains), {})[g] = spread
        for (index, max_skew, min_domains), owners in guards.items():
            tally = self.rule.tallies[index]
            if not any(g in model.unplaced and (g in owners or tally.matches[g]) for g in model.unplaced):
                continue
            if index not in self._counters:
                self._counters[index] = _Counter(model, tally)
            self._guard(self._counters[index], max_skew, min_domains, owners)
        for g, mask in self.start.items():
            for n in np.flatnonzero(mask & self.rule.never(g)).tolist():
                self.broken[g, n, self.rule.name] = []

    def _guard(self, counter: _Counter, max_skew: int, min_domains: int, owners: Mapping[int, Spread]) -> None:
        model, tally = self.model, counter.tally
        pinned = int(np.count_nonzero(tally.counted)) < min_domains or not tally.counted.any()
        floor = 0 if pinned else counter.floor
        lowest = 0 if pinned else int(counter.start[tally.counted].min())
        excess = np.maximum(counter.start - lowest - max_skew, 0)
        holders = sorted(owners)
        alone = set(np.flatnonzero(tally.matches).tolist()) <= owners.keys()
        open_ = {*counter.variables, *model.domains(holders, tally.codes)}
        for d in sorted(d for d in open_ if tally.counted[d]):
            nodes, base, count = counter.members(d), int(counter.base[d]), counter.count(d)
            literals = model.present(holders, nodes)
            upper = floor + (max_skew + int(excess[d]))
            if literals and alone and base <= max_skew:
                model.model.add(count <= upper)  # true in any case if no pod has the constraint
            else:
                for literal in literals:
                    model.model.add(count <= upper).only_enforce_if(literal)
            if excess[d]:
                for literal in model.arriving(holders, nodes):
                    model.model.add(count <= floor + max_skew).only_enforce_if(literal)
        if model.partial and not pinned:
            self._still(counter, holders, max_skew, excess, open_)
        self._broken(counter, max_skew, owners, floor)

    def _still(self, counter: _Counter, holders: list[int], max_skew: int, excess: Ints, open_: set[int]) -> None:
        """Keep the minimum high enough for unchanged domains."""
        tally = counter.tally
        occupied = domain_sum(tally.codes, tally.size, self.model.unmoved[holders].sum(axis=0)) > 0
        came = domain_sum(tally.codes, tally.size, self.model.unmoved_arrived[holders].sum(axis=0)) > 0
        occupied[sorted(open_)] = False
        needed = counter.base - max_skew - np.where(came, 0, excess)
        least = int(needed[occupied & tally.counted].max(initial=0))
        if least > 0:
            self.model.model.add(counter.floor >= least)

    def _broken(self, counter: _Counter, max_skew: int, owners: Mapping[int, Spread], floor: cp_model.IntVar | int) -> None:
        """Add literals for pods that broke the constraint at the start or may come to break it on a node that does not count."""
        model, tally = self.model, counter.tally
        clear: dict[tuple[int, int], cp_model.IntVar] = {}
        for g, spread in owners.items():
            where = model.unmoved[g] > 0
            where[model.nodes_of(g)] = True
            was = self.start.get(g)
            aside = ~tally.eligible if spread.itself and not model.partial else np.zeros_like(where)
            for n in np.flatnonzero(where & (aside if was is None else aside | was) & (tally.codes >= 0)).tolist():
                d, plus = int(tally.codes[n]), int(spread.itself and not tally.eligible[n])
                if not tally.counted[d]:
                    continue
                if (d, plus) not in clear:
                    literal = clear[d, plus] = model.model.new_bool_var("")
                    model.model.add(counter.count(d) + plus <= floor + max_skew).only_enforce_if(literal)
                self.broken.setdefault((g, n, self.rule.name), []).append(clear[d, plus])


class _Counter:
    """The pods that a tally counts at the end.

    Attributes:
        start: Pods per domain at the start, int64[D].
        base: Pods per domain that the model does not move, int64[D].
        variables: Variables of the other pods, by domain.
    """

    def __init__(self, model: EndStateModel, tally: SpreadTally) -> None:
        self.model, self.tally = model, tally
        counting = np.flatnonzero(tally.matches)
        self.start = tally.counts + self._inside(model.problem.start[counting])
        self.base = tally.counts + (self._inside(model.unmoved[counting]) if model.partial else 0)
        self.variables: dict[int, list[cp_model.IntVar]] = {}
        self._most: dict[int, int] = {}
        for g in counting.tolist():
            nodes = model.nodes_of(g)
            for n in nodes[tally.eligible[nodes] & (tally.codes[nodes] >= 0)].tolist():
                d = int(tally.codes[n])
                self.variables.setdefault(d, []).append(model.x[g, n])
                self._most[d] = self._most.get(d, 0) + model.upper(g, n)
        self._order = np.argsort(tally.codes, kind="stable").astype(np.int32)
        self._edges = np.searchsorted(tally.codes[self._order], np.arange(tally.size + 1))

    def _inside(self, pods: Ints) -> Ints:
        return domain_sum(self.tally.codes, self.tally.size, np.where(self.tally.eligible, pods.sum(axis=0), 0))

    def members(self, d: int) -> Ids:
        """Return the nodes of a domain."""
        return self._order[self._edges[d] : self._edges[d + 1]]

    def count(self, d: int) -> cp_model.LinearExprT:
        """Return the number of pods in a domain."""
        return self.model.sum(self.variables.get(d, [])) + int(self.base[d])

    @cached_property
    def floor(self) -> cp_model.IntVar:
        """A lower bound on the minimum over the domains that count."""
        counted = np.flatnonzero(self.tally.counted).tolist()
        upper = min((int(self.base[d]) + self._most.get(d, 0) for d in counted), default=0)
        floor = self.model.model.new_int_var(0, upper, "")
        for d in counted:
            if d in self.variables:
                self.model.model.add(floor <= self.count(d))
        return floor
