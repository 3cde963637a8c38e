"""The search for the cheapest purchase.

Proposals of the relaxation are tried, and cut off if they fail, until the bound and the incumbent meet.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, gcd

import numpy as np

from kubestow.models.catalogue.catalogue import Catalogue, Offer
from kubestow.solver.capacity.size.brands import HOSTNAME, Menu, unlimited
from kubestow.solver.capacity.size.improve import Improver
from kubestow.solver.capacity.size.master import UNEVEN, Master, groups_of
from kubestow.solver.capacity.size.options import SizeOptions
from kubestow.solver.capacity.size.packing import Packer, Stock, values
from kubestow.solver.capacity.size.plan import Bought, PurchasePlan, cost_of, counts_of, local, plan_of, start_of, unplaced_of
from kubestow.solver.capacity.size.purchase_cluster import PurchaseBase
from kubestow.solver.capacity.size.quotas import guess
from kubestow.solver.capacity.size.relaxation import SOLVE_TIME_FRACTION, Incumbent, Relaxed
from kubestow.solver.capacity.size.trial import PurchaseTrial, Start, attempt
from kubestow.solver.ortools import cp_model
from kubestow.solver.runtime.run_context import RunContext

#: Fraction of the remaining time for one trial.
TRIAL_TIME_FRACTION = 0.3
#: Fraction of the remaining time for a trial of the existing nodes if they cannot suffice.
HOPELESS_TRIAL_TIME_FRACTION = 0.08
#: Number of (class, brand) pairs up to which the relaxation is solved with integers, and of pods up to which
#: packing is skipped.
MAX_INTEGER_PAIRS = 6_000
MAX_UNPACKED_PODS = 40
#: Fractions of the remaining time: for the integer program after packing found an incumbent, and between trials
#: of packings.
MASTER_TIME_FRACTION = 0.2
IMPROVEMENT_TIME_FRACTION = 0.4
#: Number of nodes up to which one trial checks whether any purchase can succeed.
MAX_REFUTATION_NODES = 150
#: Another trial needs this multiple of the longest trial as remaining time; several trials need the second
#: multiple.
MIN_TRIAL_TIME_RATIO, MIN_SEVERAL_TRIALS_TIME_RATIO = 1.5, 8
#: Maximum number of packings at different prices, the fraction of the time for them, and the deterministic
#: seconds of one packing per pod.
MAX_PACKINGS = 8
PACKING_TIME_FRACTION = 0.15
PACKING_SECONDS_PER_POD = 5e-4
#: Rates are integers in multiples of 2 to the power of minus this.
RATE_SHIFT_BITS = 20


@dataclass
class SizeOutcome(Incumbent):
    """The state of the search, including the trial of the best purchase."""

    trial: PurchaseTrial | None = None
    refuted: PurchaseTrial | None = None  # a trial that leaves pods unplaced though it has more of every offer than could be useful
    notes: list[str] = field(default_factory=list)

    @property
    def known(self) -> bool:
        return self.trial is not None

    @property
    def optimal(self) -> bool:
        return self.known and self.cost == self.bound and self.count == self.least


class SizeSearch(Relaxed):
    """The search of one snapshot over the offers of ``menu``."""

    def __init__(self, purchase_base: PurchaseBase, menu: Menu, catalogue: Catalogue, request: SizeOptions, context: RunContext) -> None:
        super().__init__([menu], catalogue, request, context)
        self.purchase_base, self.menu = purchase_base, menu
        self.incumbent: SizeOutcome = SizeOutcome()
        self.local = local(menu, catalogue, request)
        self.monotone = not any(s.key == HOSTNAME for cls in menu.cluster.classes for s in cls.spread)
        self.pairs = int(np.count_nonzero(menu.max_pods)) + int(np.count_nonzero(menu.eligibility[:, menu.there].any(axis=1)))

    def run(self) -> SizeOutcome:
        """Search until the cost and the number of nodes are proved optimal, or time is up."""
        incumbent = self.incumbent
        if int(self.menu.count.sum()) > MAX_UNPACKED_PODS and self.menu.brands:
            self._pack()
        if self.pairs <= MAX_INTEGER_PAIRS and not self.context.over():
            self.masters = [Master(self.menu, self.catalogue, self.request)]
            end = self.context.deadline.remaining() * (1 - MASTER_TIME_FRACTION) if self.plan is not None else 0.0
            self._costs(end)
            if incumbent.known and incumbent.cost == incumbent.bound and self._sound:
                self._counts()
            if incumbent.optimal:
                self._even()
        if self.plan is not None and not incumbent.proved:
            self._improve()
        return incumbent

    # --- packing ----------------------------------------------------------------------------------------------------------------

    plan: PurchasePlan | None = None
    _refutation_tried = False
    _tried = 0.0  # duration of the longest trial, in seconds

    def _pack(self) -> None:
        """Find a bound by linear relaxation, and an incumbent by packing node after node."""
        menu, context = self.menu, self.context
        self.rng = np.random.default_rng(context.options.seed)
        stock, plan = guess(menu, self.local, menu.count), PurchasePlan([])
        if len(menu.there):
            there = sum((group.room for group in groups_of(menu)), np.zeros(menu.demand.shape[1], dtype=np.int64))
            enough = bool((menu.demand.T @ menu.count <= there).all())
            trial = self.attempt([0] * len(menu.brands), share=TRIAL_TIME_FRACTION if enough else HOPELESS_TRIAL_TIME_FRACTION)
            plan = plan_of(trial, menu)
            if trial.complete:
                self._adopt(trial)
                return
            placed = np.zeros(len(menu.count), dtype=np.int64)
            for pods in plan.there.values():
                for g, k in pods.items():
                    placed[g] += k
            stock = guess(menu, self.local, menu.count - placed)
        self.rates = values(self.local, menu.count)
        packer = Packer(
            self.local, self.rates, self.rng, context.stop.is_set
        )  # ignores the time limit: without a packing there is no answer at all
        self._charge()
        nodes = self._best(packer, stock)
        context.report("pack", detail=None if nodes is None else f"{len(nodes)} nodes")
        if nodes is not None:
            plan.nodes = nodes
            counts = counts_of(plan, len(menu.brands))
            self.last = self.attempt(counts, start_of(plan, menu))
            if self.last.complete:
                self._adopt(self.last)
            else:
                self._buy_more(counts)
        if self.incumbent.trial is not None:
            self.plan = plan_of(self.incumbent.trial, menu)
        self._linear()

    def _charge(self) -> None:
        """Update the bound by the cost of all resources that existing nodes lack. It needs no linear program over classes."""
        menu, rates = self.menu, self.rates
        units = np.array([gcd(*column.tolist()) or 1 for column in menu.demand.T], dtype=np.int64)
        there = np.zeros(len(rates), dtype=np.int64)
        for group in groups_of(menu):
            there += group.room // units
        needed = np.maximum(self.local.demand.T @ menu.count - there, 0)
        charged = [max(0, int(rate * 2**RATE_SHIFT_BITS)) for rate in rates.tolist()]
        prices = [sum(c * r for c, r in zip(charged, row, strict=True)) for row in self.local.room.tolist()]
        largest = max(
            (Fraction(w, p << RATE_SHIFT_BITS) for w, p in zip(prices, self.local.price.tolist(), strict=True) if p), default=Fraction(1)
        )
        free = any(w and not p for w, p in zip(prices, self.local.price.tolist(), strict=True))
        total = Fraction(sum(c * n for c, n in zip(charged, needed.tolist(), strict=True)), 1 << RATE_SHIFT_BITS) / max(
            largest, Fraction(1)
        )
        self.incumbent.bound = max(self.incumbent.bound, 0 if free else ceil(total))

    def _best(self, packer: Packer, stock: Stock) -> list[Bought] | None:
        """Return the best of several packings, in a fraction of the time."""
        best: list[Bought] | None = None
        until = self.context.deadline.remaining() * (1 - PACKING_TIME_FRACTION)
        for _ in range(MAX_PACKINGS):
            began = self.context.deadline.remaining()
            self.context.deadline.charge(PACKING_SECONDS_PER_POD * int(self.menu.count.sum()))
            nodes = packer.pack(Stock(stock.free.copy(), stock.by_place.copy()))
            if nodes is not None and (best is None or cost_of(PurchasePlan(nodes), self.local) < cost_of(PurchasePlan(best), self.local)):
                best = nodes
            remaining_seconds = self.context.deadline.remaining()
            if nodes is None or remaining_seconds - (began - remaining_seconds) < until or self.context.over():
                break
        return best

    def _improve(self) -> None:
        """Improve the incumbent by neighbourhoods, with occasional trials."""
        assert self.plan is not None
        improver = Improver(self.local, self.rates, self.cpsat, self.rng)
        while not self.context.over() and not self.incumbent.proved:
            remaining_seconds = self.context.deadline.remaining()
            if remaining_seconds < MIN_TRIAL_TIME_RATIO * self._tried:
                return
            end = (
                MIN_TRIAL_TIME_RATIO * self._tried
                if remaining_seconds < MIN_SEVERAL_TRIALS_TIME_RATIO * self._tried
                else remaining_seconds * (1 - IMPROVEMENT_TIME_FRACTION)
            )
            cost = cost_of(self.plan, self.local)

            def over(end: float = end) -> bool:
                plan = self.plan
                assert plan is not None
                met = cost_of(plan, self.local) <= self.incumbent.bound
                return met or self.context.over() or self.context.deadline.remaining() <= end

            def better() -> None:
                assert self.plan is not None
                self.context.report("improve", detail=f"{cost_of(self.plan, self.local) / 1e6:.4f}")

            if not improver.run(self.plan, over, better) or cost_of(self.plan, self.local) >= cost:
                continue
            trial = self.attempt(counts_of(self.plan, len(self.menu.brands)), start_of(self.plan, self.menu))
            if trial.complete:
                self._adopt(trial)
            elif self.incumbent.trial is not None:
                self.plan = plan_of(self.incumbent.trial, self.menu)

    # --- costs ------------------------------------------------------------------------------------------------------------------

    def _packs(self, counts: Sequence[int]) -> bool:
        return self.masters[0].packs(counts, self.cpsat, self.context.deadline.remaining() * TRIAL_TIME_FRACTION)

    def _repair_failed(self, counts: Sequence[int]) -> None:
        self.incumbent.infeasible = not self.incumbent.known and self._refuted()
        if not self.incumbent.infeasible:
            self._buy_more(counts)

    def _refuted(self) -> bool:
        """Return True if it is proved that even one node of every offer per pod is not enough. Then no purchase is."""
        counts = [min(self.masters[0].pods, ceiling) for ceiling in self.masters[0].ceiling]
        if (
            self._refutation_tried
            or not self.monotone
            or self.menu.fragile
            or sum(counts) > MAX_REFUTATION_NODES
            or self.request.survive is not None
        ):
            return False
        self._refutation_tried = True
        trial = self.attempt(counts, free=True)
        self.incumbent.refuted = trial if trial.refuted else None
        return trial.refuted

    def _even(self) -> None:
        """Prefer, among purchases of equal cost, one that stays even when nodes are added in the catalogue's other domains."""
        incumbent, first = self.incumbent, self.masters[0]
        answer = first.even(
            self.cpsat, incumbent.cost // first.unit, incumbent.count, self.context.deadline.remaining() * SOLVE_TIME_FRACTION
        )
        if answer is None or self.context.over():
            return
        if answer.solution is not None and (trial := self.attempt(first.nodes(answer.solution))).complete:
            incumbent.trial = trial
        elif answer.status == cp_model.INFEASIBLE:
            incumbent.notes.append(UNEVEN)

    # --- trials -----------------------------------------------------------------------------------------------------------------

    def _try(self, counts: Sequence[int]) -> bool:
        self.last = self.attempt(counts)
        if self.last.complete:
            self._adopt(self.last)
        else:
            self.masters[0].cut(counts, below=self.monotone, proved=self.last.refuted)
        return self.last.complete

    def attempt(
        self, counts: Sequence[int], start: Start | None = None, *, free: bool = False, share: float = TRIAL_TIME_FRACTION
    ) -> PurchaseTrial:
        """Try a purchase, given by the nodes of each brand.

        Args:
            free: True to ignore the offers' limits on nodes.
            share: Fraction of the remaining time.
        """
        began = time.monotonic()
        bought = self.menu.purchase(counts)
        with self.context.charged(share, 1.0) as context:
            trial = attempt(self.purchase_base, [(unlimited(offer), k) for offer, k in bought] if free else bought, context, start)
        self._tried = max(self._tried, time.monotonic() - began)
        return trial

    def _adopt(self, trial: PurchaseTrial) -> None:
        cost, count = spent(trial.bought), sum(k for _, k in trial.bought)
        incumbent = self.incumbent
        if incumbent.trial is None or (cost, count) < (incumbent.cost, incumbent.count):
            incumbent.trial, incumbent.cost, incumbent.count = trial, cost, count
            self._report()

    def _buy_more(self, counts: Sequence[int]) -> None:
        """Buy more until everything fits, while there is no incumbent."""
        counts = list(counts)
        while self.incumbent.trial is None and not self.context.over():
            trial = self.last
            unplaced = unplaced_of(trial, self.menu)
            plan = plan_of(trial, self.menu)
            for g, pods in zip(np.flatnonzero(unplaced).tolist(), unplaced[unplaced > 0].tolist(), strict=True):
                takes = [b for b in range(len(counts)) if self.menu.max_pods[g, b] and counts[b] < self._ceiling(b)]
                takes.sort(key=lambda b: self.menu.brands[b].price / int(self.menu.max_pods[g, b]))
                # It is unknown which place a tied class lacks: buy a node in each place, and return the useless
                # ones later.
                for b in {int(self.local.place[b]): b for b in reversed(takes)}.values() if self.local.by_place[g] else takes[:1]:
                    more = min(self._ceiling(b) - counts[b], -(-pods // int(self.menu.max_pods[g, b])))
                    counts[b] += more
                    plan.nodes += [Bought(b, {}) for _ in range(more)]
            if len(plan.nodes) == sum(count for _, count in trial.bought) or not self.local.allowed(np.array(counts, dtype=np.int64)):
                return
            self.last = self.attempt(counts, start_of(plan, self.menu))
            if self.last.complete:
                self._adopt(self.last)

    def _ceiling(self, b: int) -> int:
        return self.catalogue.most.get(self.menu.brands[b].offers[0].shape.name, int(self.menu.count.sum()) + 1)

    def _report(self) -> None:
        incumbent = self.incumbent
        if incumbent.trial is not None:
            self.context.report("search", "cost", incumbent.cost, incumbent.bound)
        else:
            self.context.report("search", detail="no purchase found yet that holds all pods")


def spent(bought: Sequence[tuple[Offer, int]]) -> int:
    """Return the cost of a purchase, in millionths."""
    return sum(offer.cost * count for offer, count in bought)
