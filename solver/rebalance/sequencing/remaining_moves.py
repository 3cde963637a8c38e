"""The difference between a state and the placement that a plan leads to, updated step by step."""

from __future__ import annotations

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step


class RemainingMoves:
    """The pods still to come to or leave each node.

    A *detour* is a step beyond those that the counts require. Each detour delays the end by one step, and the
    limits of the plan allow a certain number. Sources are -1 for pending classes. Pods of a class may go from
    any of its sources to any of its sinks.

    Attributes:
        of: Per class and node, pods still to come (negative: to leave).
        required_steps: Lower bound on the remaining steps.
        coming: Pods to come to each node, int64[N].
        leaving: Pods to leave each node, int64[N].
        seekers: Per node, the classes whose pods are to come.
        going: Per class, pods to be evicted.
    """

    def __init__(self, problem: RebalanceProblem, target: Ints, steps_at_most: int | None = None) -> None:
        self.problem = problem
        size = problem.cluster.n_nodes
        self.of: list[dict[int, int]] = [{} for _ in range(problem.cluster.n_classes)]
        self.required_steps = 0
        self.coming: Ints = np.zeros(size, dtype=np.int64)
        self.leaving: Ints = np.zeros(size, dtype=np.int64)
        self.seekers: dict[int, set[int]] = {}
        self.going: dict[int, int] = {}
        difference = target - problem.start
        for g, n in zip(*(index.tolist() for index in np.nonzero(difference)), strict=True):
            self._shift(g, n, int(difference[g, n]))
        surplus = -difference.sum(axis=1)
        for g in np.flatnonzero(problem.movable & (surplus > 0)).tolist():
            self.going[g] = int(surplus[g])
            self.required_steps += self.going[g]
        self.detours: dict[tuple[str, int], int] = {}
        self._detour_limits = self._allowed_detours(steps_at_most)

    def _allowed_detours(self, steps_at_most: int | None) -> dict[str, dict[int, int]]:
        """Return the allowed detours, by limit and its id."""
        problem, limits = self.problem, self.problem.limits
        come = np.array([sum(k for k in of.values() if k > 0) for of in self.of], dtype=np.int64) * problem.movable
        allowed: dict[str, dict[int, int]] = {}
        bounds = [] if limits.maxMoves is None else [limits.maxMoves - int(come.sum())]
        if steps_at_most is not None:
            bounds.append(steps_at_most - self.required_steps)
        if bounds:
            allowed["all"] = {0: min(bounds)}
        for kind, limit, ids in (
            ("namespace", limits.maxMovesPerNamespace, problem.namespaces),
            ("workload", limits.maxMovesPerWorkload, problem.workloads),
        ):
            if limit is not None:
                allowed[kind] = {i: limit - int(come[ids == i].sum()) for i in np.unique(ids[problem.movable]).tolist()}
        if problem.eviction_limits:
            gone = np.array([self.going.get(g, 0) for g in range(len(self.of))], dtype=np.int64)
            allowed["budget"] = {b: k - int((come + gone)[problem.guarded == b].sum()) for b, k in problem.eviction_limits.items()}
        return allowed

    def _shift(self, g: int, n: int, k: int) -> None:
        of = self.of[g]
        old = of.get(n, 0)
        new = of[n] = old + k
        come = max(new, 0) - max(old, 0)
        self.required_steps += come
        self.coming[n] += come
        self.leaving[n] += max(-new, 0) - max(-old, 0)
        if new > 0:
            self.seekers.setdefault(n, set()).add(g)
        elif old > 0:
            self.seekers[n].discard(g)
        if not new:
            del of[n]

    def note(self, step: Step, sign: int = 1) -> None:
        """Record that a step was taken, or taken back (``sign`` -1)."""
        g, k = step.g, step.k * sign
        before = self.required_steps
        if step.a >= 0:
            self._shift(g, step.a, k)
        if step.b >= 0:
            self._shift(g, step.b, -k)
        else:
            self.going[g] -= k
            self.required_steps -= k
        extra = self.required_steps - before + k
        if extra:
            for counter in self._counters(g):
                self.detours[counter] = self.detours.get(counter, 0) + extra

    def extra(self, g: int, a: int, b: int) -> int:
        """Return the detours that a step of one pod makes: 0 to 2."""
        of = self.of[g]
        return int(a >= 0 and of.get(a, 0) >= 0) + int(b >= 0 and of.get(b, 0) <= 0)

    def allows(self, g: int, extra: int) -> bool:
        """Return True if the limits allow ``extra`` further detours of pods of a class."""
        return not extra or all(
            self.detours.get((kind, i), 0) + extra <= self._detour_limits[kind].get(i, 0)
            for kind, i in self._counters(g)
            if kind in self._detour_limits
        )

    def allows_any(self) -> bool:
        """Return True if the limits allow a further detour of some class."""
        max_detours = self.most_detours()
        return max_detours is None or self.detours.get(("all", 0), 0) < max_detours

    def most_detours(self) -> int | None:
        """Return the total number of detours that the limits allow.

        Negative if they do not even allow the required steps; None if the number is unlimited.
        """
        return self._detour_limits["all"][0] if "all" in self._detour_limits else None

    def spent(self) -> tuple[tuple[tuple[str, int], int], ...]:
        """Return the detours so far that limits per namespace or workload count, sorted."""
        return tuple(
            sorted((counter, k) for counter, k in self.detours.items() if k and counter[0] != "all" and counter[0] in self._detour_limits)
        )

    def _counters(self, g: int) -> list[tuple[str, int]]:
        budget = self.problem.budget[g]
        guarded = [("budget", budget)] if budget is not None else []
        return [("all", 0), ("namespace", int(self.problem.namespaces[g])), ("workload", int(self.problem.workloads[g])), *guarded]

    # --- remaining moves
    # ----------------------------------------------------------------------------------------------------------

    def sources(self, g: int) -> list[int]:
        """Return the nodes that pods of a class are to leave, ascending; -1 for pending pods."""
        if self.problem.pending[g]:
            return [-1] if self.of[g] else []
        return sorted(n for n, k in self.of[g].items() if k < 0)

    def sinks(self, g: int) -> list[int]:
        """Return the nodes to which pods of a class are to come, ascending."""
        return sorted(n for n, k in self.of[g].items() if k > 0)

    def to_leave(self, g: int, a: int) -> int:
        """Return the number of pods of a class that are to leave a source."""
        return sum(self.of[g].values()) if a < 0 else max(0, -self.of[g].get(a, 0))

    def active(self) -> list[int]:
        """Return the classes that differ from the target, ascending."""
        return [g for g, of in enumerate(self.of) if of]

    def moves(self) -> list[Step]:
        """Return the remaining moves of each class, from its sources to its sinks in order, evictions last."""
        found: list[Step] = []
        for g in self.active():
            have = [[a, self.to_leave(g, a)] for a in self.sources(g)]
            for b in self.sinks(g):
                need = self.of[g][b]
                while need and have:
                    k = min(need, have[0][1])
                    found.append(Step(g, have[0][0], b, k))
                    need -= k
                    have[0][1] -= k
                    if not have[0][1]:
                        have.pop(0)
            found += [Step(g, a, -1, k) for a, k in have]
        return found
