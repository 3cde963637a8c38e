"""A cluster on its way through a plan: which single step is accepted next, and what is broken now."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver import rules
from kubestow.solver.bind_order.gang_units import Binder
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.problem.resident_rules import Providers, Skews
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.inter_pod_affinity import InterPodAffinity
from kubestow.solver.rules.node_resources_fit import NodeResourcesFit
from kubestow.solver.rules.pod_topology_spread import PodTopologySpread


@dataclass(slots=True)
class _Done:
    """A step that was applied, and how many of its pods the plan had put there before."""

    step: Step
    placed: int


class PlanState:
    """``counts``: int64[G, N], running pods now; ``arrived``: int64[G, N], those of them that steps put there. A pod that leaves a node is
    one that has not moved yet, as long as there are some. ``rules``: every rule, in the state.

    The kubelets' Topology Managers see what arrives only: what running pods hold of their zones is in what the zones have available.
    """

    def __init__(self, problem: RebalanceProblem) -> None:
        self.problem = problem
        self.counts = np.zeros_like(problem.start)
        self.arrived = np.zeros_like(problem.start)
        self.rules: list[Rule] = rules.build(problem.cluster)
        self._affinity = InterPodAffinity.of(self.rules)
        self._spread = PodTopologySpread.of(self.rules)
        self.fit = NodeResourcesFit.of(self.rules)
        self._moving = [self._watchers(g) for g in range(problem.cluster.n_classes)]
        self._asked = list(self._moving)  # the rules that judge a landing
        self._static: dict[int, Bools] = {}
        self._extra: list[bool] = [bool(row.any()) for row in problem.extra]
        self.skews = Skews(self._spread)
        for g, n in zip(*(index.tolist() for index in np.nonzero(problem.start)), strict=True):
            self._put(g, n, int(problem.start[g, n]), 0)
        self.skews.begin()
        self.providers = Providers(problem, self._affinity, self.counts, self.arrived)
        self._done: list[_Done] = []
        self._reserved = np.flatnonzero(problem.reserve.any(axis=1))
        self._waiting = {g: self._fitting(g) for g in np.flatnonzero((problem.extra < 0).any(axis=1)).tolist()}

    def _watchers(self, g: int) -> list[Rule]:
        """The rules whose verdict on the class can change."""
        return [r for r in self.rules if not r.static and (r is self.fit or r.concerned(g))]

    def ask_only(self, g: int, kinds: tuple[type[Rule], ...]) -> None:
        """Judge landings of the class by these rules only, and by those that say ``never``: a relaxation."""
        self._asked[g] = [rule for rule in self._moving[g] if isinstance(rule, kinds)]

    def keep_waiting(self, other: PlanState, classes: Bools) -> None:
        """Take over from another state which pods of some classes (bool[G]) have to fit with what a waiting resize asks for."""
        self._waiting = {g: nodes for g, nodes in other._waiting.items() if classes[g]}

    def never(self, g: int) -> Bools:
        """Return bool[N]: nodes that no pod of the class can get, whoever goes."""
        found = self._static.get(g)
        if found is None:
            found = self.problem.closed | self.problem.held[g]
            for rule in self.rules:
                if rule.static or rule not in self._moving[g]:
                    found |= rule.never(g)
            self._static[g] = found
        return found

    def _put(self, g: int, n: int, k: int, placed: int) -> None:
        for rule in self._moving[g]:
            if not rule.arrivals_only:
                rule.place(g, n, k)
            elif placed > 0:
                rule.place(g, n, placed)
            elif placed < 0:
                rule.remove(g, n, -placed)
        if self._extra[g]:
            self.fit.free[n] -= (k - placed) * self.problem.extra[g]
        self.skews.put(g, n, k, placed=placed)
        self.counts[g, n] += k
        self.arrived[g, n] += placed

    def _placed_first(self, g: int, a: int, k: int) -> int:
        """Return how many of k pods that leave node a are ones that the plan put there."""
        return max(0, k - int(self.counts[g, a] - self.arrived[g, a]))

    def landing(self, g: int, a: int) -> Bools:
        """Return bool[N]: where one pod of class g that runs on node a (-1: it is pending) may go as one accepted step; never a itself."""
        back = 0
        if a >= 0:
            back = self._placed_first(g, a, 1)
            if back and self.problem.once[g]:
                return np.zeros(self.problem.cluster.n_nodes, dtype=bool)
            self._put(g, a, -1, -back)
        mask = ~self.never(g)
        for rule in self._asked[g]:
            mask &= ~rule.rejects(g)
        mask &= ~self.crowded(g)
        for fine in (self.providers.landing(g), self.skews.landing(g)):
            if fine is not None:
                mask &= fine
        if a >= 0:
            mask[a] = False
            self._put(g, a, 1, back)
        return np.asarray(mask, dtype=bool)

    def inside(self, g: int, a: int, mask: Bools) -> Bools:
        """Return, of some nodes, those in the domain of node a in which a pod of class g counts for DoNotSchedule constraints, where there
        are any, constraint by constraint: many moves inside a domain share a wave, of moves between domains often one goes at a time."""
        own = {index for _, index in self._spread.own(g) if index is not None}
        for i in sorted({*self._spread.feeds(g), *own}):
            codes = self._spread.tallies[i].codes
            here = mask & (codes == codes[a])
            mask = here if codes[a] >= 0 and here.any() else mask
        return mask

    @property
    def waits(self) -> bool:
        """Whether there are pods that hold less than they ask for, and would be accepted again at the start."""
        return bool(len(self._reserved)) or any(len(nodes) for nodes in self._waiting.values())

    def crowded(self, g: int) -> Bools:
        """Return bool[N]: where pods that hold less than they ask for would not be accepted again beside one more pod of class g."""
        return self._short_with(self.problem.cluster.demand[g])

    def _short_with(self, demand: Ints) -> Bools:
        found = np.zeros(self.problem.cluster.n_nodes, dtype=bool)
        for h, nodes in self._waiting.items():
            here = nodes[self.counts[h, nodes] > self.arrived[h, nodes]]
            asks = self.problem.cluster.demand[h] > 0
            free = self.fit.free[here] - demand + self.problem.extra[h]
            found[here[(free[:, asks] < 0).any(axis=1)]] = True
        if len(self._reserved):
            left, reserve = self.fit.free[self._reserved] - demand, self.problem.reserve[self._reserved]
            found[self._reserved[((reserve > 0) & (left < reserve)).any(axis=1)]] = True
        return found

    def _fitting(self, h: int) -> Ints:
        """Nodes on which pods of class h, which hold less than they ask for, would be accepted again now."""
        nodes = np.flatnonzero(self.counts[h])
        refused = self.breaks(h, nodes).get(self.fit.name)
        return nodes if refused is None else nodes[~refused]

    def may_go(self, g: int, a: int) -> bool:
        """Return whether a pod of class g may be evicted for good from node a: no pod is worse off without it."""
        back = self._placed_first(g, a, 1)
        if back and self.problem.once[g]:
            return False
        self._put(g, a, -1, -back)
        fine = self.providers.gone(g) and self.skews.gone(g)
        self._put(g, a, 1, back)
        return fine

    def missing(self, g: int, a: int) -> list[tuple[int, int]]:
        """Return (class, node) of pods at rest that would miss a pod of class g that goes from node a for good."""
        back = self._placed_first(g, a, 1)
        self._put(g, a, -1, -back)
        found = self.providers.missing(g)
        self._put(g, a, 1, back)
        return found

    def accepts(self, step: Step) -> bool:
        """Return whether one pod may take a step now."""
        return self.may_go(step.g, step.a) if step.b < 0 else bool(self.landing(step.g, step.a)[step.b])

    def bind_unit(self, binder: Binder, part: list[tuple[int, int, int]]) -> list[Step] | None:
        """Bind pods of a gang, (class, node, number), as a unit; return the steps, or None (and the state as it was) if that is refused."""
        if any(self.problem.closed[n] for _, n, _ in part) or not binder.bind(part):
            return None
        binder.take_back(part)
        steps = [Step(g, -1, n) for g, n, k in part for _ in range(k)]
        for step in steps:
            self.apply(step)
        crowded = self.waits and self._short_with(np.zeros_like(self.problem.cluster.demand[0])).any()
        if not crowded and all(self.providers.gone(g) and self.skews.gone(g) for g in {g for g, _, _ in part}):
            return steps  # no pod at rest is worse off
        for step in reversed(steps):
            self.undo(step)
        return None

    def apply(self, step: Step) -> None:
        """Take a step, whether it is accepted or not."""
        placed = 0
        if step.a >= 0:
            placed = self._placed_first(step.g, step.a, step.k)
            self._put(step.g, step.a, -step.k, -placed)
        if step.b >= 0:
            self._put(step.g, step.b, step.k, step.k)
        self._done.append(_Done(step, placed))

    def undo(self, step: Step) -> None:
        """Take the last step back."""
        done = self._done.pop()
        assert done.step == step, "steps are taken back in the opposite order"
        if step.b >= 0:
            self._put(step.g, step.b, -step.k, -step.k)
        if step.a >= 0:
            self._put(step.g, step.a, step.k, done.placed)

    # --- what is broken -----------------------------------------------------------------------------------------------------

    def breaks(self, g: int, nodes: Ints) -> dict[str, Bools]:
        """Return by rule bool[len(nodes)]: whether pods of class g that run on these nodes, each without itself, are rejected there."""
        found: dict[str, Bools] = {}
        for rule in self.rules:
            if rule is self.fit:
                mask = self._unfit(g, nodes) > 0
            elif rule is self._affinity:
                mask = self._affinity.repelled(g, nodes) | self.providers.lacking(g, nodes)
            elif rule is self._spread:
                mask = self.skews.over(g, nodes)
            else:
                mask = rule.broken_by(g, nodes)
            if mask.any():
                found[rule.name] = np.asarray(mask, dtype=bool)
        return found

    def breaking(self, g: int, nodes: Ints) -> dict[str, Ints]:
        """Return by rule int64[len(nodes)]: how many pods of class g that run on these nodes, each without itself, are rejected there."""
        found = {name: np.where(mask, self.counts[g, nodes], 0) for name, mask in self.breaks(g, nodes).items()}
        if self.fit.name in found:
            found[self.fit.name] = self._unfit(g, nodes)
        return found

    def _unfit(self, g: int, nodes: Ints) -> Ints:
        """Return int64[len(nodes)]: of the pods of class g those that do not fit. Taken out, a pod gives back all that it holds, and asks
        for what its spec says; what the plan placed holds just that."""
        asks, came = self.fit.cluster.demand[g] > 0, self.arrived[g, nodes]
        free, full = self.fit.free[nodes][:, asks], self.fit.slots[nodes] < 0
        unfit = full | (free < 0).any(axis=1)
        if not self._extra[g]:
            return np.where(unfit, self.counts[g, nodes], 0)
        short = full | (free + self.problem.extra[g, asks] < 0).any(axis=1)
        return np.where(unfit, came, 0) + np.where(short, self.counts[g, nodes] - came, 0)

    def broken(self, *, counting: bool = False) -> dict[str, int]:
        """Return by rule how many running pods break it, of the classes that count. ``counting``: without what is forgiven."""
        found: dict[str, int] = {}
        for g in np.flatnonzero(self.problem.subjects).tolist():
            breaking = self.breaking(g, np.flatnonzero(self.counts[g]))
            for name, pods in (self.problem.counting(g, breaking) if counting else breaking).items():
                found[name] = found.get(name, 0) + int(pods.sum())
        return dict(sorted(found.items()))
