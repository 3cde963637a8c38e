"""A cluster part-way through a plan: which single step is accepted next, and which rules are broken now."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver import rules
from kubestow.solver.bind_order.gang_units import Binder
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rules.base import CapacityRule, Rule
from kubestow.solver.rules.plan_state import PlanPods
from kubestow.solver.rules.residents import ResidentPods


@dataclass(slots=True)
class _Done:
    """An applied step, and the number of its pods that the plan had placed before."""

    step: Step
    placed: int


class PlanState:
    """The state of a cluster after some steps of a plan.

    The kubelets' Topology Managers see arriving pods only. The resources of running pods are already deducted
    from those that the NUMA zones report as available.

    Attributes:
        counts: Running pods now, int64[G, N].
        arrived: Running pods that steps placed, int64[G, N]. Pods that never moved leave a node before these.
        pods: These pods, as the rules read them.
        rules: Every rule, in this state.
        faces: The plan face of each.
        residents: By rule, the resident pods that moves of others can make break it.
    """

    def __init__(self, problem: RebalanceProblem) -> None:
        self.problem = problem
        self.counts = np.zeros_like(problem.start)
        self.arrived = np.zeros_like(problem.start)
        self.rules: list[Rule] = rules.build(problem.cluster)
        self.faces = [rules.plan_face(rule) for rule in self.rules]
        self.fit = CapacityRule.of(self.rules)
        self._moving = [self._watchers(g) for g in range(problem.cluster.n_classes)]
        self._asked = list(self._moving)
        self._static: dict[int, Bools] = {}
        self._extra: list[bool] = [bool(row.any()) for row in problem.extra]
        self.pods = PlanPods(problem, self.counts, self.arrived)
        self.residents: dict[str, ResidentPods[Any]] = {
            face.rule.name: face.residents(face.rule, self.pods) for face in self.faces if face.residents is not None
        }
        for g, n in zip(*(index.tolist() for index in np.nonzero(problem.start)), strict=True):
            self._put(g, n, int(problem.start[g, n]), 0)
        for residents in self.residents.values():
            residents.begin()
        self._done: list[_Done] = []
        self._reserved = np.flatnonzero(problem.reserve.any(axis=1))
        self._waiting = {g: self._fitting(g) for g in np.flatnonzero((problem.extra < 0).any(axis=1)).tolist()}

    def _watchers(self, g: int) -> list[Rule]:
        """Return the rules whose verdict on the class can change."""
        return [r for r in self.rules if not r.static and (r is self.fit or r.concerned(g))]

    def judge_only_by(self, g: int, names: Container[str]) -> None:
        """Judge landings of the class only by these rules and by every rule's ``never``: a relaxation."""
        self._asked[g] = [rule for rule in self._moving[g] if rule.name in names]

    def keep_waiting(self, other: PlanState, classes: Bools) -> None:
        """Copy another state's requirements for waiting resizes, for the given classes bool[G]."""
        self._waiting = {g: nodes for g, nodes in other._waiting.items() if classes[g]}

    def never(self, g: int) -> Bools:
        """Return the nodes that never accept a pod of the class, even if all others leave, bool[N]."""
        closed = self._static.get(g)
        if closed is None:
            closed = self.problem.closed | self.problem.shares_unbound_claim[g]
            for rule in self.rules:
                if rule.static or rule not in self._moving[g]:
                    closed |= rule.never(g)
            self._static[g] = closed
        return closed

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
        for residents in self.residents.values():
            residents.put(g, n, k, placed=placed)
        self.counts[g, n] += k
        self.arrived[g, n] += placed

    def _placed_first(self, g: int, a: int, k: int) -> int:
        """Return the number of pods, among k that leave node a, that the plan placed there."""
        return max(0, k - int(self.counts[g, a] - self.arrived[g, a]))

    def landing(self, g: int, a: int) -> Bools:
        """Return the nodes to which one pod of class g may go from node a (-1: pending) as one accepted step,
        bool[N].

        Node a itself is never among them.
        """
        back = 0
        if a >= 0:
            back = self._placed_first(g, a, 1)
            if back and self.problem.once[g]:
                return np.zeros(self.problem.cluster.n_nodes, dtype=bool)
            self._put(g, a, -1, -back)
        mask = ~self.never(g)
        for rule in self._asked[g]:
            mask &= ~rule.rejects(g)
        mask &= ~self.blocks_waiting_resizes(g)
        for residents in self.residents.values():
            fine = residents.landing(g)
            if fine is not None:
                mask &= fine
        if a >= 0:
            mask[a] = False
            self._put(g, a, 1, back)
        return np.asarray(mask, dtype=bool)

    def prefer_own_domain(self, g: int, a: int, mask: Bools) -> Bools:
        """Return a mask of nodes restricted to the domain of node a, for one constraint after the other, where nodes remain.

        Many moves inside a domain share a wave; moves between domains often go one at a time.
        """
        for codes in (codes for face in self.faces for codes in face.move_domains(g)):
            here = mask & (codes == codes[a])
            mask = here if codes[a] >= 0 and here.any() else mask
        return mask

    @property
    def waits(self) -> bool:
        """True if some pods hold less than they request and would be accepted again at the start."""
        return bool(len(self._reserved)) or any(len(nodes) for nodes in self._waiting.values())

    def blocks_waiting_resizes(self, g: int) -> Bools:
        """Return the nodes where one more pod of class g leaves too little for a waiting resize, bool[N]."""
        return self._short_with(self.problem.cluster.demand[g])

    def _short_with(self, demand: Ints) -> Bools:
        found = np.zeros(self.problem.cluster.n_nodes, dtype=bool)
        for h, nodes in self._waiting.items():
            here = nodes[self.counts[h, nodes] > self.arrived[h, nodes]]
            asks = self.problem.cluster.demand[h] > 0
            free = self.fit.free[here] - demand + self.problem.extra[h]
            found[here[(free[:, asks] < 0).any(axis=1)]] = True
        if len(self._reserved):
            residual, reserve = self.fit.free[self._reserved] - demand, self.problem.reserve[self._reserved]
            found[self._reserved[((reserve > 0) & (residual < reserve)).any(axis=1)]] = True
        return found

    def _fitting(self, h: int) -> Ints:
        """Return the nodes on which pods of class h, which hold less than they request, would be accepted again now."""
        nodes = np.flatnonzero(self.counts[h])
        refused = self.breaks(h, nodes).get(self.fit.name)
        return nodes if refused is None else nodes[~refused]

    def may_go(self, g: int, a: int) -> bool:
        """Return True if a pod of class g may be evicted for good from node a: no pod is worse off without it."""
        back = self._placed_first(g, a, 1)
        if back and self.problem.once[g]:
            return False
        self._put(g, a, -1, -back)
        fine = self._unharmed(g)
        self._put(g, a, 1, back)
        return fine

    def missing(self, g: int, a: int) -> list[tuple[int, int]]:
        """Return the (class, node) of resident pods that would miss a pod of class g evicted from node a."""
        back = self._placed_first(g, a, 1)
        self._put(g, a, -1, -back)
        missing = [pod for residents in self.residents.values() for pod in residents.missing(g)]
        self._put(g, a, 1, back)
        return missing

    def _unharmed(self, g: int) -> bool:
        """Return True if no resident pod is worse off while a pod of class g, absent now, stays away."""
        return all(residents.gone(g) for residents in self.residents.values())

    def accepts(self, step: Step) -> bool:
        """Return True if the step of one pod is accepted now."""
        return self.may_go(step.g, step.a) if step.b < 0 else bool(self.landing(step.g, step.a)[step.b])

    def bind_unit(self, binder: Binder, part: list[tuple[int, int, int]]) -> list[Step] | None:
        """Bind pods of a gang, given as (class, node, number), as a unit.

        Returns:
            The steps. None if the binding is refused; the state is then unchanged.
        """
        if any(self.problem.closed[n] for _, n, _ in part) or not binder.bind(part):
            return None
        binder.take_back(part)
        steps = [Step(g, -1, n) for g, n, k in part for _ in range(k)]
        for step in steps:
            self.apply(step)
        crowded = self.waits and self._short_with(np.zeros_like(self.problem.cluster.demand[0])).any()
        if not crowded and all(self._unharmed(g) for g in {g for g, _, _ in part}):
            return steps  # no resident pod is worse off
        for step in reversed(steps):
            self.undo(step)
        return None

    def apply(self, step: Step) -> None:
        """Apply a step, whether it is accepted or not."""
        placed = 0
        if step.a >= 0:
            placed = self._placed_first(step.g, step.a, step.k)
            self._put(step.g, step.a, -step.k, -placed)
        if step.b >= 0:
            self._put(step.g, step.b, step.k, step.k)
        self._done.append(_Done(step, placed))

    def undo(self, step: Step) -> None:
        """Take back the last step."""
        done = self._done.pop()
        assert done.step == step, "steps are taken back in the opposite order"
        if step.b >= 0:
            self._put(step.g, step.b, -step.k, -step.k)
        if step.a >= 0:
            self._put(step.g, step.a, step.k, done.placed)

    # --- broken rules
    # -----------------------------------------------------------------------------------------------------

    def breaks(self, g: int, nodes: Ints) -> dict[str, Bools]:
        """Return the pods of class g, running on the given nodes, that are rejected there without themselves.

        Returns:
            By rule, bool[len(nodes)].
        """
        found: dict[str, Bools] = {}
        for rule in self.rules:
            if rule is self.fit:
                mask = self._unfit(g, nodes) > 0
            else:
                residents = self.residents.get(rule.name)
                mask = rule.broken_by(g, nodes) if residents is None else residents.broken(g, nodes)
            if mask.any():
                found[rule.name] = np.asarray(mask, dtype=bool)
        return found

    def breaking(self, g: int, nodes: Ints) -> dict[str, Ints]:
        """Count the pods of class g, running on the given nodes, that are rejected there without themselves.

        Returns:
            By rule, int64[len(nodes)].
        """
        pods_by_rule = {name: np.where(mask, self.counts[g, nodes], 0) for name, mask in self.breaks(g, nodes).items()}
        if self.fit.name in pods_by_rule:
            pods_by_rule[self.fit.name] = self._unfit(g, nodes)
        return pods_by_rule

    def _unfit(self, g: int, nodes: Ints) -> Ints:
        """Return the number of pods of class g that do not fit, int64[len(nodes)].

        A pod that is taken out returns all resources that it holds, and requests those of its spec. Pods that
        the plan placed hold exactly their requests.
        """
        asks, came = self.fit.cluster.demand[g] > 0, self.arrived[g, nodes]
        free, full = self.fit.free[nodes][:, asks], self.fit.slots[nodes] < 0
        unfit = full | (free < 0).any(axis=1)
        if not self._extra[g]:
            return np.where(unfit, self.counts[g, nodes], 0)
        short = full | (free + self.problem.extra[g, asks] < 0).any(axis=1)
        return np.where(unfit, came, 0) + np.where(short, self.counts[g, nodes] - came, 0)

    def broken(self, *, counting: bool = False) -> dict[str, int]:
        """Return the number of running pods that break each rule, among the classes that count.

        Args:
            counting: Leave out forgiven rules.
        """
        found: dict[str, int] = {}
        for g in np.flatnonzero(self.problem.subjects).tolist():
            breaking = self.breaking(g, np.flatnonzero(self.counts[g]))
            for name, pods in (self.problem.counted_rules(g, breaking) if counting else breaking).items():
                found[name] = found.get(name, 0) + int(pods.sum())
        return dict(sorted(found.items()))
