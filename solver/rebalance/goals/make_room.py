"""Room for one pod: a few other pods leave a node, each for a free place or for one that is made free in turn.

Such a sequence of moves is an ejection chain (Glover 1996, doi:10.1016/0166-218X(94)00037-E). As a last resort,
if allowed, pods of lower priority are evicted. Anti-affinity and host ports determine exactly which pods have
to leave a node. Of the other pods, those leave that free the missing resources. Depth, branching and the number
of landing checks are bounded.
"""

from __future__ import annotations

import numpy as np

from kubestow.models.cluster.cluster import Ids, Ints, domain_sum
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rebalance.goals.move_builder import MoveBuilder
from kubestow.solver.rebalance.problem.problem import Step

#: Moves in a chain.
MAX_CHAIN_MOVES = 8
#: Nodes on which room is made, by depth; the last value holds for all deeper levels.
MAX_NODES_BY_DEPTH = (12, 4, 2)
#: Landing checks for one pod.
MAX_LANDING_CHECKS = 300
#: Nodes whose pods are examined one by one.
MAX_EXAMINED_NODES = 128
#: Cost of evicting a pod of the lowest priority, in moves.
EVICTION_COST_MOVES = 100_000
#: Cost of an infeasible node; exceeds any real cost.
INFEASIBLE_COST = 2**50


class RoomMaker:
    """Finds places for pods of a builder.

    Args:
        wanted: Nodes that pending pods could use, bool[N]. Pods that move away avoid them if possible.
    """

    def __init__(self, builder: MoveBuilder, wanted: Bools) -> None:
        self.builder, self.problem, self.state = builder, builder.problem, builder.state
        cluster = self.problem.cluster
        self._bias: Ints = np.where(wanted, 0, 1).astype(np.int64)
        self._holds = cluster.demand + self.problem.extra  # int64[G, R]: resources that become free when a pod leaves
        moving = np.flatnonzero(self.problem.movable)
        # int64[N, R]: free resources and those held by pods that may leave
        self._offer: Ints = self.state.fit.free + self.state.counts[moving].T @ self._holds[moving]
        self._most = np.maximum(cluster.allocatable.max(axis=0, initial=1), 1)
        self._conflicting: dict[int, dict[int, list[Ids]]] = {}
        ranks = np.unique(cluster.priority[self.problem.evictable], return_inverse=True)[1]
        self._loss: Ints = np.full(cluster.n_classes, INFEASIBLE_COST, dtype=np.int64)  # of an eviction: pods of higher priority cost more
        self._loss[self.problem.evictable] = EVICTION_COST_MOVES * 20 ** np.minimum(ranks, 4)
        self._checks_left, self._top = 0, 0
        self._evicting, self._for, self._room = False, 0, self._offer

    def place(self, g: int, allowed: Bools | None = None) -> bool:
        """Bind a pending pod of class g with as few evictions and moves as the search finds.

        Args:
            allowed: Nodes that may receive the pod, bool[N]; None: all.

        Returns:
            True if the pod was bound.
        """
        mask = self.builder.places(g, -1)
        if allowed is not None:
            mask &= allowed
        if mask.any():
            self.builder.take(Step(g, -1, self.builder.tightest(g, mask)))
            return True
        open_ = np.ones_like(mask) if allowed is None else allowed
        self._for, self._room = g, self._left()
        for evicting in (False, True) if self.problem.limits.allowEviction else (False,):
            self._evicting, self._checks_left = evicting, MAX_LANDING_CHECKS
            for self._top in range(MAX_CHAIN_MOVES):
                if self._best(g, -1, open_, self._top, INFEASIBLE_COST):
                    return True
        return False

    # --- cost of a place
    # ----------------------------------------------------------------------------------------------------------

    def price(self, g: int) -> Ints:
        """Return a lower bound on the moves before each node accepts one more pod of class g, int64[N].

        It counts missing resources and conflicting pods. INFEASIBLE_COST: the node cannot accept the pod.
        """
        forced, free, slots = self._forced(g)
        lack = self._lack(g, free)
        never = self._lack(g, self._left()).any(axis=1)
        return np.where(never, INFEASIBLE_COST, forced + (lack.any(axis=1) | (slots < 1)))

    def _lack(self, g: int, free: Ints) -> Ints:
        """Return the shortage of each resource that a pod of class g requests, in the shape of ``free``."""
        demand = self.problem.cluster.demand[g]
        return np.where(demand > 0, np.maximum(demand - free, 0), 0)

    def _left(self) -> Ints:
        """Return the resources available if all pods that may leave did, int64[N, R]; pods bound by the plan stay."""
        bound = np.flatnonzero(self.problem.pending & self.state.counts.any(axis=1))
        return np.asarray(self._offer - self.state.counts[bound].T @ self.problem.cluster.demand[bound])

    def _forced(self, g: int) -> tuple[Ints, Ints, Ints]:
        """Return, per node, the pods that conflict with class g and the capacity without them.

        Returns:
            Number of conflicting pods, int64[N], INFEASIBLE_COST if a pod has to stay; free resources, int64[N,
            R]; free pod slots, int64[N].
        """
        problem, state = self.problem, self.state
        forced: Ints = np.where(state.never(g) | self.builder.kept_empty, INFEASIBLE_COST, 0)
        free, slots = state.fit.free, state.fit.slots
        for h, domains in self._conflicts(g).items():
            here = state.counts[h]
            if not here.any():
                continue
            near = np.zeros_like(here)
            for codes in domains:
                size = int(codes.max(initial=-1)) + 1
                near = np.maximum(near, np.append(domain_sum(codes, size, here), 0)[codes])
            forced += np.where(near > 0, near if problem.movable[h] else INFEASIBLE_COST, 0)
            free = free + here[:, None] * self._holds[h]
            slots = slots + here
        return np.minimum(forced, INFEASIBLE_COST), free, slots

    def _conflicts(self, g: int) -> dict[int, list[Ids]]:
        """Return for each conflicting class the domains that it cannot share with a pod of class g.

        In such a domain, exactly the pods of these classes have to leave, without exception.

        Returns:
            By class, arrays of domain numbers, int32[N], -1: none.
        """
        if g not in self._conflicting:
            cluster, conflicts = self.problem.cluster, dict[int, dict[str, Ids]]()
            nodes = np.arange(cluster.n_nodes, dtype=np.int32)
            for face in sorted(self.state.faces, key=lambda face: face.rule.local):  # whole domains before single nodes
                for h, key in face.conflicts(g):
                    conflicts.setdefault(h, {})[key] = cluster.domains(key)[0] if key else nodes
            self._conflicting[g] = {h: list(keys.values()) for h, keys in conflicts.items()}
        return self._conflicting[g]

    def _candidates(self, g: int, a: int, open_: Bools, max_cost: int, choices: int) -> list[tuple[int, int]]:
        """Return (lower bound on moves, node) pairs where room may be made, the cheapest first."""
        problem = self.problem
        forced, free, slots = self._forced(g)
        lack = self._lack(g, free)
        short = lack.any(axis=1) | (slots < 1)
        fine = open_ & (forced + short <= max_cost) & (forced + short > 0) & ~self._lack(g, self._room).any(axis=1)
        if a >= 0:
            fine[a] = False
        nodes = np.flatnonzero(fine)
        share = (lack[nodes] / self._most).sum(axis=1)
        nodes = nodes[np.lexsort((share, forced[nodes]))[:MAX_EXAMINED_NODES]]
        if not len(nodes):
            return []
        moving = np.flatnonzero(problem.movable & self.state.counts[:, nodes].any(axis=1))
        here = self.state.counts[np.ix_(moving, nodes)] > 0
        least = forced[nodes] + short[nodes]
        for r in np.flatnonzero(lack[nodes].any(axis=0)).tolist():
            largest = (here * self._holds[moving, r][:, None]).max(axis=0, initial=0)
            needed = np.where(largest > 0, -(-lack[nodes, r] // np.maximum(largest, 1)), np.where(lack[nodes, r] > 0, INFEASIBLE_COST, 0))
            least = np.maximum(least, forced[nodes] + needed)
        share = (lack[nodes] / self._most).sum(axis=1)
        order = np.lexsort((share, least))
        return [(int(least[i]), int(nodes[i])) for i in order[:choices].tolist() if least[i] <= max_cost]

    # --- moves --------------------------------------------------------------------------------------------------------------------

    def _spent(self, before: int) -> int:
        """Return the cost of the moves and evictions since step ``before``."""
        return sum(int((self.problem.cost if step.b >= 0 else self._loss)[step.g]) for step in self.builder.steps[before:] if step.a >= 0)

    def _best(self, g: int, a: int, open_: Bools, depth: int, max_cost: int) -> bool:
        """Bring a pod to the node where room costs least, within a cost of ``max_cost``; return True if there is one.

        Args:
            depth: Levels of further pods that may make room in turn. At most ``_top``.
        """
        builder, before = self.builder, len(self.builder.steps)
        best: list[Step] | None = None
        choices = MAX_NODES_BY_DEPTH[min(self._top - depth, len(MAX_NODES_BY_DEPTH) - 1)]
        for least, n in self._candidates(g, a, open_, max_cost, choices):
            if least > max_cost or self._over():
                break
            if self._open(Step(g, a, n), open_, depth, max_cost):
                max_cost = self._spent(before) - 1
                best = [*builder.steps[before:], Step(g, a, n)]
            builder.rewind_to(before)
        for step in best or ():
            builder.take(step)
        return best is not None

    def _over(self) -> bool:
        return self._checks_left <= 0 or self.builder.over()

    def _lands(self, g: int, a: int, n: int) -> bool:
        self._checks_left -= 1
        return bool(self.builder.places(g, a)[n])

    def _open(self, step: Step, open_: Bools, depth: int, max_cost: int) -> bool:
        """Move others off a node until a step to it is accepted. Return False if that fails.

        The moves made until a failure stay in the builder.
        """
        before, (g, a, n) = len(self.builder.steps), (step.g, step.a, step.b)
        outside = open_.copy() if a >= 0 else np.ones_like(open_)
        outside[n] = False
        while not self._lands(g, a, n):
            remaining_cost = max_cost - self._spent(before)
            if remaining_cost < 1 or self._over():
                return False
            pods, region = self._movers(g, n)
            there = outside & ~region
            levels = (0, depth) if depth else (0,)
            if not any(self._away(h, m, there, level, remaining_cost) for level in levels for h, m in pods) and not self._evict(
                pods, remaining_cost
            ):
                return False
        if 1 < len(self.builder.steps) - before <= MAX_CHAIN_MOVES:
            self.builder.drop_needless(before, lambda: self._lands(g, a, n))
        return True

    def _movers(self, g: int, n: int) -> tuple[list[tuple[int, int]], Bools]:
        """Return candidates for the next pod to leave as (class, node), the most useful first.

        Returns:
            The candidates, and bool[N], nodes to which they may not go.
        """
        problem, state = self.problem, self.state
        region = np.zeros(problem.cluster.n_nodes, dtype=bool)
        for h, domains in self._conflicts(g).items():
            for codes in domains:
                near = (codes == codes[n]) & (codes >= 0)
                nodes = np.flatnonzero(near & (state.counts[h] > 0))
                if len(nodes):
                    return ([(h, int(nodes[0]))] if problem.movable[h] else []), near
        lack = self._lack(g, state.fit.free[n])
        full = state.fit.slots[n] < 1
        here = np.flatnonzero((state.counts[:, n] > 0) & problem.movable)
        if not lack.any() and not full:
            return [], region
        gain = (np.minimum(self._holds[here], lack) / self._most).sum(axis=1)
        helps = (gain > 0) | full
        enough = (self._holds[here] >= lack).all(axis=1)
        size = (self._holds[here] / self._most).sum(axis=1)
        order = np.lexsort((size, -gain, problem.cost[here], ~enough))
        return [(int(here[i]), n) for i in order.tolist() if helps[i]], region

    def _away(self, h: int, m: int, open_: Bools, depth: int, max_cost: int) -> bool:
        """Move a pod of class h off node m; with ``depth`` above 0, to a node where room is made for it.

        Return True if it was moved.
        """
        remaining_cost = max_cost - int(self.problem.cost[h])
        if remaining_cost < 0 or self._over():
            return False
        if depth:
            return remaining_cost > 0 and self._best(h, m, open_, depth - 1, max_cost)
        self._checks_left -= 1
        mask = self.builder.places(h, m) & open_
        if mask.any():
            self.builder.take(Step(h, m, self.builder.tightest(h, mask, self._bias)))
            return True
        return False

    def _evict(self, pods: list[tuple[int, int]], max_cost: int) -> bool:
        """Evict a pod for the one to be placed: the one of least loss that may be evicted. Return True if there was one.

        Args:
            pods: Candidates as (class, node), most useful first.
            max_cost: Maximum loss.
        """
        problem, builder = self.problem, self.builder
        lower = (
            [(h, m) for h, m in pods if problem.evictable[h] and problem.cluster.priority[h] < problem.cluster.priority[self._for]]
            if self._evicting
            else []
        )
        for h, m in sorted(lower, key=lambda pod: int(self._loss[pod[0]])):
            if self._loss[h] <= max_cost and builder.within(h, eviction=True) and builder.state.may_go(h, m):
                builder.take(Step(h, m, -1))
                return True
        return False
