"""A tier whose pods are not all placed: refute what cannot be, choose which pods stay out, and pack the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.rules.base import Rule
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.tight_packing.demands import Demands, relaxed, untied
from kubestow.solver.tight_packing.full_nodes import FullNodes
from kubestow.solver.tight_packing.left_out import LeftOut
from kubestow.solver.tight_packing.node_filling import NodeFilling
from kubestow.solver.tight_packing.repacking import Repacking


@dataclass(frozen=True)
class TightParameters:
    """How far each step goes. Shares are of the time that the caller grants a tier.

    Attributes:
        choose: Share for a choice of pods that stay out.
        patience: Repackings after which another choice is made, where the node that is worst off is no better off.
        choices: Choices of pods that stay out.
        step: Deterministic seconds that a repacking counts.
        fill: Share for filling nodes one after the other, where next to nothing may be left over, ...
        filling: ... and deterministic seconds that each step of it counts.
        listing: Deterministic seconds that listing patterns counts, ...
        pricing: ... and a linear program over some of them.
        crowd: Share for patterns of few pods, ...
        crowding: ... and deterministic seconds that these count.
        pods: Pods above which the repacking has no chance to end.
    """

    choose: float = 0.1
    patience: int = 300
    choices: int = 40
    step: float = 1.5e-3
    fill: float = 0.85
    filling: float = 3e-4
    listing: float = 0.05
    pricing: float = 0.03
    crowd: float = 0.4
    crowding: float = 0.5
    pods: int = 5_000


PARAMETERS = TightParameters()


class TightPacking:
    """``active``: rules in any state. ``limits``: int64[G, N], see :func:`kubestow.solver.rules.eligibility.possible`."""

    def __init__(self, cluster: Cluster, active: Sequence[Rule], limits: Ints, context: RunContext) -> None:
        self.cluster, self.active, self.limits, self.context = cluster, active, limits, context
        self.all = relaxed(cluster, limits)
        self.tied = len(untied(cluster, active, limits, np.zeros_like(limits)).classes) < len(self.all.classes)
        self.cpsat = CpSat(context)
        self.seed = context.options.seed

    def bound(self, priority: int, placed: dict[int, int], bound: int, seconds: float) -> tuple[int, Ints | None]:
        """Return a bound of a tier, which is above what is ``placed`` of it, over all placements with so many pods of the tiers above; and
        a placement of these tiers int64[G, N] that reaches it, where one was found on the way."""
        over = self._until(seconds)
        while bound > placed[priority] and not over():
            wanted = {p: n for p, n in placed.items() if p > priority} | {priority: bound}
            proof = self._proof(wanted, over)
            self.context.deadline.charge(PARAMETERS.listing)
            if not (proof.impossible(self.cpsat, seconds * PARAMETERS.choose) or self._crowded(proof, seconds)):
                patterns = None if over() else proof.patterns(seconds)
                if patterns is None:
                    return bound, None
                program, pods = proof.program(patterns)
                if not program.refutes(pods, self._charging(over)):
                    counts = None if self.tied else program.dive(pods, self._charging(over))
                    return bound, None if counts is None else self._whole(proof.demands, counts)
            bound -= 1
        return bound, None

    def pack(self, counts: Ints, wanted: dict[int, int], seconds: float) -> Ints | None:
        """Return a placement int64[G, N] with so many pods of each priority and none of others, for pods that no rule ties; tied ones
        stay where a placement (``counts``: int64[G, N]) has them. None where none was found."""
        free = untied(self.cluster, self.active, self.limits, counts)
        others = counts.copy()
        others[free.classes] = 0
        held = self.cluster.per_priority(others.sum(axis=1))
        fit = {p: int(free.count[free.priority == p].sum()) for p in wanted}
        rest = {p: n - held[p] for p, n in wanted.items()}
        if any(not 0 <= n <= fit[p] for p, n in rest.items()) or sum(rest.values()) > PARAMETERS.pods:
            return None
        kept = free.only(np.isin(free.priority, list(wanted)))
        if not len(kept.classes):
            return None
        over, filled = self._until(seconds), self._charging(self._until(seconds * PARAMETERS.fill), PARAMETERS.filling)
        choices = LeftOut(kept, rest, self.cpsat)
        for _ in range(PARAMETERS.choices):
            chosen = None if over() else choices.next(seconds * PARAMETERS.choose)
            if chosen is None:
                return None
            self.seed += 1
            filling = NodeFilling(kept, chosen, seed=self.seed)
            if filling.promising and filling.run(filled):
                return others + self._whole(kept, filling.counts())
            repacking = Repacking(kept, chosen, seed=self.seed)
            if repacking.run(self._patience(repacking, over)):
                return others + self._whole(kept, repacking.counts())
        return None

    # --- helpers --------------------------------------------------------------------------------------------------------

    def _proof(self, wanted: dict[int, int], over: Callable[[], bool]) -> FullNodes:
        demands = self.all.only(np.isin(self.all.priority, list(wanted)))
        fit = {p: int(demands.count[demands.priority == p].sum()) for p in wanted}
        return FullNodes(demands, {p: max(0, fit[p] - n) for p, n in wanted.items()}, over)

    def _crowded(self, proof: FullNodes, seconds: float) -> bool:
        if not proof.next_to_nothing:
            return False
        self.context.deadline.charge(PARAMETERS.crowding)
        return proof.crowded(self.cpsat, seconds * PARAMETERS.crowd)

    def _whole(self, demands: Demands, counts: Ints) -> Ints:
        """int64[G, N] of int64[K, N]."""
        found = np.zeros_like(self.limits)
        found[demands.classes] = counts
        return found

    def _charging(self, over: Callable[[], bool], each: float = PARAMETERS.pricing) -> Callable[[], bool]:
        """The same, asked before every step that counts so many deterministic seconds."""

        def asked() -> bool:
            self.context.deadline.charge(each)
            return over()

        return asked

    def _until(self, seconds: float) -> Callable[[], bool]:
        end = self.context.deadline.left() - seconds
        return lambda: self.context.stop.is_set() or self.context.deadline.left() <= max(end, 0.0)

    def _patience(self, repacking: Repacking, over: Callable[[], bool]) -> Callable[[], bool]:
        best, since = repacking.worst(), 0

        def tired() -> bool:
            nonlocal best, since
            self.context.deadline.charge(PARAMETERS.step)
            now = repacking.worst()
            best, since = (now, 0) if now > best else (best, since + 1)
            return since > PARAMETERS.patience or over()

        return tired
