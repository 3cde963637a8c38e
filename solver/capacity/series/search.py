"""The search for the cheapest nodes that suffice for every snapshot of a series.

Each snapshot is searched alone first. The dearest answer is a lower bound for all, and is tried on all
snapshots. Then one model holds the relaxations of all snapshots over common numbers of nodes. Its proposals
are tried on each snapshot, repaired if pods stay unplaced, and cut off if they fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.cluster.cluster import Ints
from kubestow.solver.capacity.size.master import Master, groups_of
from kubestow.solver.capacity.size.options import SizeOptions
from kubestow.solver.capacity.size.packing import Packer, values
from kubestow.solver.capacity.size.plan import Bought, PurchasePlan, counts_of, plan_of, start_of, unplaced_of
from kubestow.solver.capacity.size.quotas import guess
from kubestow.solver.capacity.size.relaxation import Incumbent, Relaxed
from kubestow.solver.capacity.size.search import MAX_INTEGER_PAIRS, PACKING_SECONDS_PER_POD, TRIAL_TIME_FRACTION, SizeOutcome, SizeSearch
from kubestow.solver.capacity.size.trial import PurchaseTrial
from kubestow.solver.runtime.run_context import RunContext

#: Number of (class, brand) pairs of all snapshots up to which the relaxation is solved with integers.
MAX_JOINT_PAIRS = 5 * MAX_INTEGER_PAIRS
#: Fraction of the time remaining after the linear relaxation that proposals of the relaxation may use.
PROPOSAL_TIME_FRACTION = 0.6
#: Number of failed proposals that are repaired although an incumbent exists.
MAX_REPAIRED_PROPOSALS = 4


@dataclass
class SeriesIncumbent(Incumbent):
    """The state of the search.

    Attributes:
        trials: One trial of the best nodes for each snapshot; empty without an incumbent.
        counts: Nodes of each brand in the incumbent.
    """

    trials: list[PurchaseTrial] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    @property
    def known(self) -> bool:
        return bool(self.trials)


class Joint(Relaxed):
    """The joint search over all snapshots.

    Attributes:
        searches: The finished search of each snapshot alone, over menus of the same brands.
        alone: The result of each of these searches.
    """

    def __init__(
        self, searches: Sequence[SizeSearch], alone: Sequence[SizeOutcome], catalogue: Catalogue, request: SizeOptions, context: RunContext
    ) -> None:
        super().__init__([search.menu for search in searches], catalogue, request, context)
        self.searches, self.alone = searches, alone
        self.allowed = searches[0].local.allowed
        self.incumbent: SeriesIncumbent = SeriesIncumbent(bound=max(outcome.bound for outcome in alone))
        self.order = sorted(range(len(searches)), key=lambda i: (-alone[i].cost, i))  # the snapshots most likely to fail come first
        self.mended = 0  # repaired proposals
        self.rng = np.random.default_rng(context.options.seed)
        self.there = [sum((group.room for group in groups_of(menu)), np.zeros(menu.demand.shape[1], dtype=np.int64)) for menu in self.menus]
        self.unpacked: dict[int, list[Sequence[int]]] = {}  # refuted for a snapshot, by packing and by a trial
        self.refuted: dict[int, list[Sequence[int]]] = {}
        self.failed: dict[tuple[int, ...], tuple[int, PurchaseTrial]] = {}
        for search in searches:
            search.context = context

    def run(self) -> SeriesIncumbent:
        """Search until the cost and the number of nodes are proved optimal, or time is up."""
        incumbent = self.incumbent
        for counts in self._known():
            if incumbent.proved or (incumbent.trials and self.context.over()):
                break
            self._repair(counts)
        pairs = sum(search.pairs for search in self.searches)
        if not self.price.size or not any(menu.count.any() for menu in self.menus):
            self._try_all([0] * len(self.price))
        if pairs > MAX_INTEGER_PAIRS and not incumbent.proved and not self.context.over():
            self._linear()
        if pairs <= MAX_JOINT_PAIRS and not self.context.over():
            self.masters = self.models(range(len(self.menus)))
            end = self.context.deadline.remaining() * (1 - PROPOSAL_TIME_FRACTION) if pairs > MAX_INTEGER_PAIRS else 0.0
            self._costs(end)
            if incumbent.trials and incumbent.cost == incumbent.bound and self._sound:
                self._counts()
        if incumbent.trials and not incumbent.proved:
            self._improve()
        return incumbent

    # --- starting points from the snapshots alone ---------------------------------------------------------------------------------

    def _known(self) -> Iterator[list[int]]:
        """Yield the nodes that the dearest snapshot needs, then the maximum over all snapshots. Yield zeros if nothing is known."""
        each = [self._of(outcome) for outcome in self.alone if outcome.trial is not None] or [[0] * len(self.price)]
        yield max(each, key=lambda counts: int(self.price @ counts))
        yield np.max(each, axis=0).tolist()

    def _of(self, outcome: SizeOutcome) -> list[int]:
        """Return the nodes of each brand that were found for a snapshot alone."""
        assert outcome.trial is not None
        brand_of = {(offer.shape.name, offer.zone): b for b, brand in enumerate(self.menus[0].brands) for offer in brand.offers}
        counts = [0] * len(self.price)
        for offer, count in outcome.trial.bought:
            counts[brand_of[offer.shape.name, offer.zone]] += count
        return counts

    # --- trials -------------------------------------------------------------------------------------------------------------------

    def _try_all(self, counts: Sequence[int], plans: Mapping[int, PurchasePlan] | None = None) -> tuple[int, PurchaseTrial] | None:
        """Try nodes on every snapshot, the most likely failure first.

        Adopt the nodes if all snapshots succeed.

        Args:
            plans: Initial packings of some snapshots.

        Returns:
            The first snapshot that fails, with its trial; None if all succeed.
        """
        known = self.failed.get(tuple(counts))
        if known is not None:
            return known
        trials: dict[int, PurchaseTrial] = {}
        for i in list(self.order):
            alone = self.alone[i]
            if alone.trial is not None and self._of(alone) == list(counts):
                trials[i] = alone.trial
                continue
            start = start_of(plans[i], self.menus[i]) if plans is not None and i in plans else None
            trial = self.searches[i].attempt(counts, start, share=TRIAL_TIME_FRACTION / 2)
            if not trial.complete:
                self.order.remove(i)
                self.order.insert(0, i)
                self.failed[tuple(counts)] = i, trial
                return i, trial
            trials[i] = trial
        self._adopt(list(counts), [trials[i] for i in range(len(self.searches))])
        return None

    def _adopt(self, counts: list[int], trials: list[PurchaseTrial]) -> None:
        incumbent, cost = self.incumbent, int(self.price @ counts)
        if not incumbent.trials or (cost, sum(counts)) < (incumbent.cost, incumbent.count):
            incumbent.trials, incumbent.counts, incumbent.cost, incumbent.count = trials, counts, cost, sum(counts)
            self.context.report("search", "cost", incumbent.cost, incumbent.bound)

    def _repair(self, counts: Sequence[int]) -> None:
        """Try nodes, and buy more for the unplaced pods, until every pod of every snapshot has a node."""
        counts, incumbent, plans, joined = list(counts), self.incumbent, dict[int, PurchasePlan](), set[int]()
        while not self.context.over() or not (incumbent.trials or self.context.stop.is_set()):  # otherwise there would be no answer at all
            if not self.allowed(np.array(counts, dtype=np.int64)) or (incumbent.trials and int(self.price @ counts) >= incumbent.cost):
                return
            failing = self._try_all(counts, plans)
            if failing is None:
                return
            i, trial = failing
            if i not in joined and self.alone[i].trial is not None:  # likely to suffice once its own nodes are included
                joined.add(i)
                counts, plans = np.maximum(counts, self._of(self.alone[i])).tolist(), {}
                continue
            more = self._more(i, trial, np.array(counts, dtype=np.int64))
            if not more:
                return
            for plan in plans.values():
                plan.nodes += [Bought(node.brand, {}) for node in more]
            plans[i] = plan_of(trial, self.menus[i])
            plans[i].nodes += more
            counts = counts_of(plans[i], len(counts))

    def _more(self, i: int, trial: PurchaseTrial, counts: Ints) -> list[Bought] | None:
        """Return nodes for the pods that a trial left unplaced, with these pods; None if none are found."""
        search, menu = self.searches[i], self.menus[i]
        unplaced = unplaced_of(trial, menu)
        packer = Packer(search.local, values(search.local, menu.count), self.rng, self.context.stop.is_set)
        self.context.deadline.charge(PACKING_SECONDS_PER_POD * int(unplaced.sum()))
        return packer.pack(guess(menu, search.local, unplaced), counts)

    # --- the relaxation of all snapshots ------------------------------------------------------------------------------------------

    def models(self, chosen: Sequence[int]) -> list[Master]:
        """Return the masters of some snapshots in one model, without purchases that were refuted for a snapshot."""
        masters: list[Master] = []
        for i in chosen:
            masters.append(Master(self.menus[i], self.catalogue, self.request, masters[0] if masters else None, self.ceiling))
        for i, master in zip(chosen, masters, strict=True):
            for counts in self.unpacked.get(i, ()):
                master.cut_shapes(counts)
            for counts in self.refuted.get(i, ()):
                master.cut(counts, below=self.searches[i].monotone, proved=True)
        return masters

    def _repair_failed(self, counts: Sequence[int]) -> None:
        if not self.incumbent.known or self.mended < MAX_REPAIRED_PROPOSALS:
            self.mended += 1
            self._repair(counts)

    def _packs(self, counts: Sequence[int]) -> bool:
        seconds = self.context.deadline.remaining() * TRIAL_TIME_FRACTION
        for i in self.order:
            if not self.masters[i].packs(counts, self.cpsat, seconds):
                self.unpacked.setdefault(i, []).append(counts)
                return False
        return True

    def _try(self, counts: Sequence[int]) -> bool:
        failing = self._try_all(counts)
        if failing is None:
            return True
        i, trial = failing
        if trial.refuted:
            self.refuted.setdefault(i, []).append(counts)
        self.masters[i].cut(counts, below=self.searches[i].monotone, proved=trial.refuted)
        return False

    # --- improvement --------------------------------------------------------------------------------------------------------------

    def _improve(self) -> None:
        """Give back a node, or replace one or two by a cheaper one, until that no longer lowers the cost or time is up.

        Every pod of every snapshot keeps a node.
        """
        incumbent = self.incumbent
        while not self.context.over() and not incumbent.proved:
            cost = incumbent.cost
            self._trim()
            for gone, new in self._moves():
                if self.context.over():
                    return
                counts = np.array(incumbent.counts, dtype=np.int64)
                np.subtract.at(counts, list(gone), 1)
                np.add.at(counts, list(new), 1)
                if not self.allowed(counts) or tuple(counts.tolist()) in self.failed or not self._has_room(counts):
                    continue
                plans = [self._changed(plan_of(trial, menu), gone, new) for trial, menu in zip(incumbent.trials, self.menus, strict=True)]
                if self._try_all(counts.tolist(), dict(enumerate(plans))) is None:
                    break
            if incumbent.cost == cost:
                return

    def _trim(self) -> None:
        """Try without the nodes that no snapshot uses: of each brand, keep the largest number that one snapshot uses."""
        plans = [plan_of(trial, menu) for trial, menu in zip(self.incumbent.trials, self.menus, strict=True)]
        kept = np.max([counts_of(PurchasePlan([node for node in plan.nodes if node.pods]), len(self.price)) for plan in plans], axis=0)
        if kept.sum() == self.incumbent.count or not self.allowed(kept):
            return
        fullest = [sorted(plan.nodes, key=lambda node: -sum(node.pods.values())) for plan in plans]
        trimmed: dict[int, PurchasePlan] = {}
        for i, nodes in enumerate(fullest):
            each = [node for b, limit in enumerate(kept.tolist()) for node in [one for one in nodes if one.brand == b][:limit]]
            trimmed[i] = PurchasePlan(each, plans[i].there)
        self._try_all(kept.tolist(), trimmed)

    def _moves(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Return the possible exchanges (brands returned, brands bought), largest saving first, within the gap."""
        incumbent, price = self.incumbent, self.price.tolist()
        bought = [b for b, count in enumerate(incumbent.counts) if count]
        gone = [(b,) for b in bought] + [(a, b) for a in bought for b in bought if a < b or (a == b and incumbent.counts[a] > 1)]
        moves = [(each, new) for each in gone for new in ((), *((b,) for b in range(len(price)))) if len(each) == 1 or new]

        def saved(move: tuple[tuple[int, ...], tuple[int, ...]]) -> int:
            return int(sum(price[b] for b in move[0]) - sum(price[b] for b in move[1]))

        fine = [move for move in moves if 0 < saved(move) <= incumbent.cost - incumbent.bound]
        return sorted(fine, key=lambda move: (-saved(move), move))

    def _has_room(self, counts: Ints) -> bool:
        """Return True if the total room suffices for every snapshot, and each class has enough eligible nodes."""
        for menu, there in zip(self.menus, self.there, strict=True):
            if (menu.demand.T @ menu.count > there + menu.room.T @ counts).any():
                return False
            if (menu.count > menu.eligibility[:, menu.there].sum(axis=1) + menu.max_pods @ counts).any():
                return False
        return True

    def _changed(self, plan: PurchasePlan, gone: Sequence[int], new: Sequence[int]) -> PurchasePlan:
        """Return a plan without the emptiest node of each brand in ``gone``, and with one empty node of each brand in ``new``."""
        nodes = list(plan.nodes)
        for b in gone:
            nodes.remove(min((node for node in nodes if node.brand == b), key=lambda node: sum(node.pods.values())))
        return PurchasePlan([*nodes, *(Bought(b, {}) for b in new)], plan.there)
