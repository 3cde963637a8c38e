"""Tight packing of one tier: refute impossible pod counts, choose the pods that stay out, and pack the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.rules.base import Rule
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.tight_packing.demands import PackingDemands, relaxed, untied
from kubestow.solver.tight_packing.full_nodes import FullNodes
from kubestow.solver.tight_packing.left_out import LeftOut
from kubestow.solver.tight_packing.node_filling import NodeFilling
from kubestow.solver.tight_packing.repacking import Repacking


@dataclass(frozen=True)
class TightParameters:
    """Budgets of the steps. Fractions apply to the time that the caller grants a tier.

    Attributes:
        choose_fraction: Time fraction for one choice of the pods that stay out.
        stalled_repackings: Repackings without progress on the worst node, after which another choice is made.
        max_choices: Number of choices of pods that stay out.
        repacking_seconds: Deterministic seconds charged for a repacking.
        filling_fraction: Time fraction for filling nodes one by one, if almost no room is to spare.
        filling_seconds: Deterministic seconds charged per node filled.
        listing_seconds: Deterministic seconds charged for listing patterns.
        program_seconds: Deterministic seconds charged for a linear program over patterns.
        crowded_fraction: Time fraction for the proof by patterns of few pods.
        crowded_seconds: Deterministic seconds charged for that proof.
        max_pods: Larger instances skip packing: it would not finish.
    """

    choose_fraction: float = 0.1
    stalled_repackings: int = 300
    max_choices: int = 40
    repacking_seconds: float = 1.5e-3
    filling_fraction: float = 0.85
    filling_seconds: float = 3e-4
    listing_seconds: float = 0.05
    program_seconds: float = 0.03
    crowded_fraction: float = 0.4
    crowded_seconds: float = 0.5
    max_pods: int = 5_000


PARAMETERS = TightParameters()


class TightPacking:
    """Packing and bounds of the tiers of one instance.

    Args:
        active: Rules in any state.
        eligibility: int64[G, N], see :func:`kubestow.solver.rules.eligibility.possible`.
    """

    def __init__(self, cluster: Cluster, active: Sequence[Rule], eligibility: Ints, context: RunContext) -> None:
        self.cluster, self.active, self.eligibility, self.context = cluster, active, eligibility, context
        self.all = relaxed(cluster, eligibility)
        self.constrained = len(untied(cluster, active, eligibility, np.zeros_like(eligibility)).classes) < len(self.all.classes)
        self.cpsat = CpSat(context, workers=1)
        self.seed = context.options.seed

    def bound(self, priority: int, placed: dict[int, int], bound: int, seconds: float) -> tuple[int, Ints | None]:
        """Tighten the bound of a tier.

        The bound holds for all placements with at least the ``placed`` pods of every higher tier.

        Args:
            placed: Pods of the incumbent, by priority.
            bound: Known bound, above ``placed[priority]``.
            seconds: Time limit.

        Returns:
            The bound, and a placement int64[G, N] of these tiers that reaches it, or None if none was found on the way.
        """
        over = self.context.slice(cap=seconds).is_over
        programs = self.context.slice(cap=seconds, charge=PARAMETERS.program_seconds).is_over
        while bound > placed[priority] and not over():
            wanted = {p: n for p, n in placed.items() if p > priority} | {priority: bound}
            proof = self._proof(wanted, over)
            self.context.deadline.charge(PARAMETERS.listing_seconds)
            if not (proof.impossible(self.cpsat, seconds * PARAMETERS.choose_fraction) or self._crowded(proof, seconds)):
                patterns = None if over() else proof.patterns(seconds)
                if patterns is None:
                    return bound, None
                program, pods = proof.program(patterns)
                if not program.refutes(pods, programs):
                    counts = None if self.constrained else program.dive(pods, programs)
                    return bound, None if counts is None else self._whole(proof.demands, counts)
            bound -= 1
        return bound, None

    def pack(self, counts: Ints, wanted: dict[int, int], seconds: float) -> Ints | None:
        """Return a placement int64[G, N] with exactly the ``wanted`` pods of each priority, or None if none was found.

        Pods that a rule ties to others stay where the placement ``counts`` (int64[G, N]) has them."""
        free = untied(self.cluster, self.active, self.eligibility, counts)
        others = counts.copy()
        others[free.classes] = 0
        placed = self.cluster.per_priority(others.sum(axis=1))
        fit = {p: int(free.count[free.priority == p].sum()) for p in wanted}
        missing = {p: n - placed[p] for p, n in wanted.items()}
        if any(not 0 <= n <= fit[p] for p, n in missing.items()) or sum(missing.values()) > PARAMETERS.max_pods:
            return None
        kept = free.only(np.isin(free.priority, list(wanted)))
        if not len(kept.classes):
            return None
        time = self.context.slice(cap=seconds)
        filled = self.context.slice(cap=seconds * PARAMETERS.filling_fraction, charge=PARAMETERS.filling_seconds).is_over
        choices = LeftOut(kept, missing, self.cpsat)
        for _ in range(PARAMETERS.max_choices):
            chosen = None if time.is_over() else choices.next(seconds * PARAMETERS.choose_fraction)
            if chosen is None:
                return None
            self.seed += 1
            filling = NodeFilling(kept, chosen, seed=self.seed)
            if filling.promising and filling.run(filled):
                return others + self._whole(kept, filling.counts())
            repacking = Repacking(kept, chosen, seed=self.seed)
            if repacking.run(replace(time, charge=PARAMETERS.repacking_seconds, patience=PARAMETERS.stalled_repackings + 1)):
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
        self.context.deadline.charge(PARAMETERS.crowded_seconds)
        return proof.crowded(self.cpsat, seconds * PARAMETERS.crowded_fraction)

    def _whole(self, demands: PackingDemands, counts: Ints) -> Ints:
        """Return int64[G, N]: the rows of ``counts``, int64[K, N], at the classes of the demands, and zeros elsewhere."""
        found = np.zeros_like(self.eligibility)
        found[demands.classes] = counts
        return found
