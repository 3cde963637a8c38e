"""The search for the cheapest purchase: proposals of the relaxation are tried, what fails is cut off, until bound and incumbent meet."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, gcd

import numpy as np
from ortools.sat.python import cp_model

from kubestow.models.catalogue.catalogue import Catalogue, Offer
from kubestow.solver.capacity.size.improve import Improver
from kubestow.solver.capacity.size.master import UNEVEN, Master, ceilings, groups_of
from kubestow.solver.capacity.size.menu import HOSTNAME, Menu, unlimited
from kubestow.solver.capacity.size.options import SizeOptions
from kubestow.solver.capacity.size.packing import Packer, Stock, values
from kubestow.solver.capacity.size.plan import Bought, Plan, cost_of, counts_of, left_of, local, plan_of, start_of
from kubestow.solver.capacity.size.quotas import guess
from kubestow.solver.capacity.size.relaxation import least_cost
from kubestow.solver.capacity.size.trial import Start, Trial, attempt
from kubestow.solver.capacity.size.world import World
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.runtime.run_context import RunContext

#: Share of the time that is left for one solve of the relaxation, and for one trial.
SOLVE = 0.25
TRY = 0.3
#: The same for a trial of the nodes that are there, where they cannot do.
HASTE = 0.08
#: (class, brand) pairs up to which the relaxation is solved in whole numbers, and pods up to which nothing else is done before.
WHOLE = 6_000
FEW = 40
#: Shares of the time that is left: for the linear relaxation, for whole numbers where packing has an incumbent, between trials of packings.
LINEAR = 0.15
MASTER = 0.2
BETWEEN = 0.4
#: Nodes that are tried at once where it is asked whether anything does.
ALL = 150
#: Times a trial so far that are kept for another one, and that there must be for several.
AGAIN, SEVERAL = 1.5, 8
#: Packings from different prices at most, the share of the time for them, and deterministic seconds of one for each pod.
PACKINGS = 8
PACK = 0.15
PACKING = 5e-4
#: Rates are counted in parts of this power of two.
SHIFT = 20


@dataclass
class Incumbent:
    """What is known by now: the best that was tried with success, and bounds. Costs in millionths."""

    cost: int = 0
    count: int = 0
    bound: int = 0
    least: int = 0  # nodes at least, at the cost of the incumbent
    infeasible: bool = False

    @property
    def known(self) -> bool:
        """Return whether something is known that does."""
        raise NotImplementedError

    @property
    def proved(self) -> bool:
        """Return whether nothing is cheaper."""
        return self.known and self.cost <= self.bound


@dataclass
class Found(Incumbent):
    """The state of the search, with the best purchase."""

    trial: Trial | None = None
    refuted: Trial | None = None  # what leaves pods though more of everything is bought than could be of use
    notes: list[str] = field(default_factory=list)

    @property
    def known(self) -> bool:
        return self.trial is not None

    @property
    def optimal(self) -> bool:
        return self.known and self.cost == self.bound and self.count == self.least


class Relaxed:
    """Bounds and proposals of the relaxation for one snapshot or several: ``menus``, of the same brands, and ``masters`` of their own."""

    found: Incumbent
    masters: list[Master]

    def __init__(self, menus: Sequence[Menu], catalogue: Catalogue, asked: SizeOptions, context: RunContext) -> None:
        self.menus, self.catalogue, self.asked, self.context = menus, catalogue, asked, context
        self.cpsat = CpSat(context)
        self.price = np.array([brand.price for brand in menus[0].brands], dtype=np.int64)
        self.ceiling = np.max([ceilings(menu, catalogue, asked) for menu in menus], axis=0).tolist()

    def _linear(self) -> None:
        """The bound of the linear relaxation."""
        found = self.found
        if not found.proved:
            bound = self.linear(range(len(self.menus)), self.context.deadline.left() * LINEAR)
            found.bound = max(found.bound, min(bound, found.cost) if found.known else bound)
            self._report()

    def linear(self, chosen: Sequence[int], seconds: float) -> int:
        """Return the bound of the linear relaxation of some snapshots, millionths."""
        ceiling = np.array(self.ceiling, dtype=np.int64)
        if self.found.known:
            ceiling = np.minimum(ceiling, self.found.cost // np.maximum(self.price, 1) + 1)
        deterministic, stop = self.context.options.deterministic, self.context.stop
        menus = [self.menus[i] for i in chosen]
        bound = least_cost(menus, self.catalogue, ceiling, seconds=seconds, deterministic=deterministic, stop=stop)
        self.context.deadline.charge(seconds)
        return bound

    @property
    def _sound(self) -> bool:
        return all(master.sound for master in self.masters)

    def _costs(self, end: float) -> None:
        """Try proposals, the cheapest first, until no more than ``end`` is left of the time."""
        found, first = self.found, self.masters[0]
        while not self.context.over() and self.context.deadline.left() > end:
            answer = first.cheapest(self.cpsat, self.context.deadline.left() * SOLVE)
            if answer.status == cp_model.INFEASIBLE:
                if found.known and self._sound:
                    found.bound = found.cost
                found.infeasible = not found.known and self._sound
                return
            if answer.bound is not None and self._sound:
                found.bound = max(found.bound, answer.bound * first.unit)
            self._report()
            if answer.solution is None or (found.known and found.bound >= found.cost):
                return
            proposal = first.nodes(answer.solution)
            if answer.status == cp_model.OPTIMAL and answer.bound is not None:
                fewest = first.fewest(self.cpsat, answer.bound, self.context.deadline.left() * SOLVE)
                proposal = proposal if fewest.solution is None else first.nodes(fewest.solution)
            if self._packs(proposal) and not self._try(proposal):
                self._mend_failed(proposal)
                if found.infeasible:
                    return

    def _counts(self) -> None:
        """Fewer nodes at the same cost."""
        found, first = self.found, self.masters[0]
        while not self.context.over():
            answer = first.fewest(self.cpsat, found.cost // first.unit, self.context.deadline.left() * SOLVE)
            if answer.status == cp_model.INFEASIBLE and self._sound:
                found.least = found.count
            if answer.bound is not None and self._sound:
                found.least = max(found.least, min(found.count, answer.bound))
            if answer.solution is None or found.least >= found.count:
                return
            proposal = first.nodes(answer.solution)
            if self._packs(proposal):
                self._try(proposal)

    def _packs(self, counts: Sequence[int]) -> bool:
        """Return whether packing does not refute a proposal."""
        raise NotImplementedError

    def _try(self, counts: Sequence[int]) -> bool:
        """Try nodes by brand; whether everything found a place. What fails is cut off."""
        raise NotImplementedError

    def _mend_failed(self, counts: Sequence[int]) -> None:
        """Make something that does of a proposal that failed, or find that nothing does."""
        raise NotImplementedError

    def _report(self) -> None:
        """Tell that a bound may be better."""


class Search(Relaxed):
    """One search. ``menu``: what can be bought."""

    def __init__(self, world: World, menu: Menu, catalogue: Catalogue, asked: SizeOptions, context: RunContext) -> None:
        super().__init__([menu], catalogue, asked, context)
        self.world, self.menu = world, menu
        self.found: Found = Found()
        self.local = local(menu, catalogue, asked)
        self.monotone = not any(s.key == HOSTNAME for cls in menu.cluster.classes for s in cls.spread)
        self.pairs = int(np.count_nonzero(menu.most)) + int(np.count_nonzero(menu.limits[:, menu.there].any(axis=1)))

    def run(self) -> Found:
        """Search until cost and number of nodes are proved, or time is up."""
        found = self.found
        if int(self.menu.count.sum()) > FEW and self.menu.brands:
            self._pack()
        if self.pairs <= WHOLE and not self.context.over():
            self.masters = [Master(self.menu, self.catalogue, self.asked)]
            end = self.context.deadline.left() * (1 - MASTER) if self.plan is not None else 0.0
            self._costs(end)
            if found.known and found.cost == found.bound and self._sound:
                self._counts()
            if found.optimal:
                self._even()
        if self.plan is not None and not found.proved:
            self._improve()
        return found

    # --- packing ----------------------------------------------------------------------------------------------------------------

    plan: Plan | None = None
    _asked_all = False
    _tried = 0.0  # seconds of the longest trial

    def _pack(self) -> None:
        """A bound by linear relaxation, and an incumbent by packing node after node."""
        menu, context = self.menu, self.context
        self.rng = np.random.default_rng(context.options.seed)
        stock, plan = guess(menu, self.local, menu.count), Plan([])
        if len(menu.there):
            there = sum((group.room for group in groups_of(menu)), np.zeros(menu.demand.shape[1], dtype=np.int64))
            enough = bool((menu.demand.T @ menu.count <= there).all())
            trial = self.attempt([0] * len(menu.brands), share=TRY if enough else HASTE)
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
        packer = Packer(self.local, self.rates, self.rng, context.stop.is_set)  # without a packing there is no answer at all
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
                self._grow(counts)
        if self.found.trial is not None:
            self.plan = plan_of(self.found.trial, menu)
        self._linear()

    def _charge(self) -> None:
        """A bound that needs no linear program over classes: what all resources cost together that nodes which are there do not have."""
        menu, rates = self.menu, self.rates
        units = np.array([gcd(*column.tolist()) or 1 for column in menu.demand.T], dtype=np.int64)
        there = np.zeros(len(rates), dtype=np.int64)
        for group in groups_of(menu):
            there += group.room // units
        needed = np.maximum(self.local.demand.T @ menu.count - there, 0)
        charged = [max(0, int(rate * 2**SHIFT)) for rate in rates.tolist()]
        worth = [sum(c * r for c, r in zip(charged, row, strict=True)) for row in self.local.room.tolist()]
        most = max((Fraction(w, p << SHIFT) for w, p in zip(worth, self.local.price.tolist(), strict=True) if p), default=Fraction(1))
        free = any(w and not p for w, p in zip(worth, self.local.price.tolist(), strict=True))
        total = Fraction(sum(c * n for c, n in zip(charged, needed.tolist(), strict=True)), 1 << SHIFT) / max(most, Fraction(1))
        self.found.bound = max(self.found.bound, 0 if free else ceil(total))

    def _best(self, packer: Packer, stock: Stock) -> list[Bought] | None:
        """The best of some packings, in a part of the time."""
        best: list[Bought] | None = None
        until = self.context.deadline.left() * (1 - PACK)
        for _ in range(PACKINGS):
            began = self.context.deadline.left()
            self.context.deadline.charge(PACKING * int(self.menu.count.sum()))
            nodes = packer.pack(Stock(stock.free.copy(), stock.tied.copy()))
            if nodes is not None and (best is None or cost_of(Plan(nodes), self.local) < cost_of(Plan(best), self.local)):
                best = nodes
            left = self.context.deadline.left()
            if nodes is None or left - (began - left) < until or self.context.over():
                break
        return best

    def _improve(self) -> None:
        """Neighbourhoods, with a trial from time to time."""
        assert self.plan is not None
        improver = Improver(self.local, self.rates, self.cpsat, self.rng)
        while not self.context.over() and not self.found.proved:
            left = self.context.deadline.left()
            if left < AGAIN * self._tried:
                return
            end = AGAIN * self._tried if left < SEVERAL * self._tried else left * (1 - BETWEEN)
            cost = cost_of(self.plan, self.local)

            def over(end: float = end) -> bool:
                plan = self.plan
                assert plan is not None
                met = cost_of(plan, self.local) <= self.found.bound
                return met or self.context.over() or self.context.deadline.left() <= end

            def better() -> None:
                assert self.plan is not None
                self.context.report("improve", detail=f"{cost_of(self.plan, self.local) / 1e6:.4f}")

            if not improver.run(self.plan, over, better) or cost_of(self.plan, self.local) >= cost:
                continue
            trial = self.attempt(counts_of(self.plan, len(self.menu.brands)), start_of(self.plan, self.menu))
            if trial.complete:
                self._adopt(trial)
            elif self.found.trial is not None:
                self.plan = plan_of(self.found.trial, self.menu)

    # --- costs ------------------------------------------------------------------------------------------------------------------

    def _packs(self, counts: Sequence[int]) -> bool:
        return self.masters[0].packs(counts, self.cpsat, self.context.deadline.left() * TRY)

    def _mend_failed(self, counts: Sequence[int]) -> None:
        self.found.infeasible = not self.found.known and self._refuted()
        if not self.found.infeasible:
            self._grow(counts)

    def _refuted(self) -> bool:
        """Return whether not even as many nodes of everything as there are pods hold everything, proved: then nothing does."""
        counts = [min(self.masters[0].pods, ceiling) for ceiling in self.masters[0].ceiling]
        if self._asked_all or not self.monotone or self.menu.fragile or sum(counts) > ALL or self.asked.survive is not None:
            return False
        self._asked_all = True
        trial = self.attempt(counts, free=True)
        self.found.refuted = trial if trial.refuted else None
        return trial.refuted

    def _even(self) -> None:
        """Among purchases that cost the same, take one that stays even when nodes come to the other domains of the catalogue."""
        found, first = self.found, self.masters[0]
        answer = first.even(self.cpsat, found.cost // first.unit, found.count, self.context.deadline.left() * SOLVE)
        if answer is None or self.context.over():
            return
        if answer.solution is not None and (trial := self.attempt(first.nodes(answer.solution))).complete:
            found.trial = trial
        elif answer.status == cp_model.INFEASIBLE:
            found.notes.append(UNEVEN)

    # --- trials -----------------------------------------------------------------------------------------------------------------

    def _try(self, counts: Sequence[int]) -> bool:
        self.last = self.attempt(counts)
        if self.last.complete:
            self._adopt(self.last)
        else:
            self.masters[0].cut(counts, below=self.monotone, proved=self.last.refuted)
        return self.last.complete

    def attempt(self, counts: Sequence[int], start: Start | None = None, *, free: bool = False, share: float = TRY) -> Trial:
        """Try a purchase, nodes by brand. ``free``: as if there were any number of each; ``share``: of the time that is left."""
        began = time.monotonic()
        context = self.context.part(max(1.0, self.context.deadline.left() * share))
        bought = self.menu.purchase(counts)
        trial = attempt(self.world, [(unlimited(offer), k) for offer, k in bought] if free else bought, context, start)
        self.context.deadline.charge(context.deadline.elapsed())
        self._tried = max(self._tried, time.monotonic() - began)
        return trial

    def _adopt(self, trial: Trial) -> None:
        cost, count = spent(trial.bought), sum(k for _, k in trial.bought)
        found = self.found
        if found.trial is None or (cost, count) < (found.cost, found.count):
            found.trial, found.cost, found.count = trial, cost, count
            self._report()

    def _grow(self, counts: Sequence[int]) -> None:
        """Buy more until everything fits, where nothing is known that does."""
        counts = list(counts)
        while self.found.trial is None and not self.context.over():
            trial = self.last
            left = left_of(trial, self.menu)
            plan = plan_of(trial, self.menu)
            for g, pods in zip(np.flatnonzero(left).tolist(), left[left > 0].tolist(), strict=True):
                takes = [b for b in range(len(counts)) if self.menu.most[g, b] and counts[b] < self._ceiling(b)]
                takes.sort(key=lambda b: self.menu.brands[b].price / int(self.menu.most[g, b]))
                # Which place a tied class lacks is not known: a node in each, and what is of no use is given back later.
                for b in {int(self.local.place[b]): b for b in reversed(takes)}.values() if self.local.tied[g] else takes[:1]:
                    more = min(self._ceiling(b) - counts[b], -(-pods // int(self.menu.most[g, b])))
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
        found = self.found
        if found.trial is not None:
            self.context.report("search", "cost", found.cost, found.bound)
        else:
            self.context.report("search", detail="no purchase yet that holds everything")


def spent(bought: Sequence[tuple[Offer, int]]) -> int:
    """Return what a purchase costs, in millionths."""
    return sum(offer.cost * count for offer, count in bought)
