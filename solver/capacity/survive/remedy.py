"""The cheapest additional nodes with which every failure is survived, proved by running the certificate again with them.

First the *growth* adds nodes for one counterexample after another, until the certificate has none. Then
purchases are tried in order of cost. Each is refuted by a failure that it does not cure, or by the room that
a failure lacks. The search ends when a purchase is certified, or when the incumbent is no dearer than the
next one.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Final

from kubestow.models.catalogue import money
from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.documents.survival import Survival, SurvivalRemedy
from kubestow.models.edits.edits import apply
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.survive.decide import ScenarioVerdict, hard
from kubestow.solver.capacity.survive.failures import after, domains
from kubestow.solver.capacity.survive.offers import MissingRoom, NodeOffer, edits_of, offers, one_of_each, room
from kubestow.solver.capacity.survive.options import ZONE, SurviveOptions
from kubestow.solver.capacity.survive.preemption import decide_preempting
from kubestow.solver.capacity.survive.search import QUICK_SECONDS, Failed, FailureSearch
from kubestow.solver.capacity.survive.survive import survive
from kubestow.solver.executors.pool import WorkerPool
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.remedy.smallest_working import least
from kubestow.solver.runtime.run_context import RunContext

#: Maximum number of failures decided, and of certificates run. They end a run without a time limit.
_MAX_DECISIONS: Final = 2_000
_MAX_CERTIFICATES: Final = 40
#: Fractions of the remaining time: for one failure, and for one certificate.
_FAILURE_TIME_FRACTION, _CERTIFICATE_TIME_FRACTION = 0.2, 0.6
#: Number of pods times nodes up to which a single model decides a failure.
_MAX_MODEL_PAIRS: Final = 20_000
#: Maximum number of purchases whose clusters are kept compiled.
_MAX_CACHED_CLUSTERS: Final = 4
#: Maximum number of failures whose missing room bounds the cost.
_MAX_MEASURED_FAILURES: Final = 6
#: Maximum number of nodes of one kind that are added at once.
_MAX_NODES_AT_ONCE: Final = 2_000

Counts = tuple[int, ...]


@dataclass
class RemedySearch:
    """The search for the cheapest certified purchase.

    Attributes:
        catalogue: Source of the nodes; None for clones.
        pool: Workers that share the certificates.
        offers: Kinds of nodes that may be added.
        known: Failures that some purchase did not survive, the latest one first.
        floor: Proved lower bound on the cost of a certified purchase.
        why: Reason why no remedy was found.
    """

    snapshot: Snapshot
    request: SurviveOptions
    context: RunContext
    catalogue: Catalogue | None = None
    pool: WorkerPool | None = None
    offers: Sequence[NodeOffer] = ()
    known: list[Failed] = field(default_factory=list)
    why: str = ""
    floor: int = 0
    _trial_clusters: dict[Counts, FailureSearch] = field(default_factory=dict)
    _looks: dict[tuple[Counts, Failed], ScenarioVerdict] = field(default_factory=dict)
    _verdicts: dict[tuple[Counts, Failed], ScenarioVerdict] = field(default_factory=dict)
    _cured: dict[tuple[Counts, Failed], bool | None] = field(default_factory=dict)
    _certified: dict[Counts, bool | None] = field(default_factory=dict)
    _rooms: list[MissingRoom] = field(default_factory=list)

    def find(self, survival: Survival) -> SurvivalRemedy | None:
        """Return the cheapest additional nodes found with which a Survival is certified; None without any. A note in
        ``survival`` has the reason."""
        self.context.report("remedy")
        if self.request.at_once > 1 and survival.scenarios.open:
            survival.notes.append("no remedy was searched for, because not every failure was decided in time (--time-limit)")
            return None
        self.offers = offers(self.snapshot, self.request, survival, self.context, self.catalogue)
        if not self.offers:
            survival.notes.append("no remedy: no kind of node can hold any of the pods that stay pending")
            return None
        self.known = [tuple(each.failed) for each in survival.counterexamples]
        best = self.run()
        if best is None:
            survival.notes.append(f"no remedy: {self.why or 'none was found in time (--time-limit)'}")
            return None
        return self.document(best)

    def run(self) -> Counts | None:
        """Return the cheapest certified purchase found."""
        if not self.request.preemption and not self.context.over():  # preemptible pods provide room, too
            self._measure()
        best = self._grown()
        if best is None and not self.why and not self.context.over():
            best = self._cheapest(None)
        elif best is not None:
            best = self._cheapest(self._reduced(best))
        return best

    def _measure(self) -> None:
        """Compute the room that the worst failures lack."""
        base = self._trial_cluster((0,) * len(self.offers))
        edited, fresh = one_of_each(self.snapshot, self.offers)
        more = FailureSearch(edited, self.request, domains(edited, self.request), self.context)
        for failed in self.known[:_MAX_MEASURED_FAILURES]:
            self._rooms.append(room(base.instance.surviving(base.gone(failed)), more.instance.surviving(more.gone(failed)), fresh))

    def cost(self, counts: Counts) -> int:
        """Return the cost of a purchase, in millionths per hour or in nodes."""
        return sum(n * offer.cost for n, offer in zip(counts, self.offers, strict=True))

    def document(self, counts: Counts) -> SurvivalRemedy:
        """Return the entry of a certified purchase in a Survival."""
        edits = edits_of(self.offers, counts)
        cost, bound = self.cost(counts), min(self.floor, self.cost(counts))
        options = [*chain(*(("--add-nodes", text) for text in edits.addNodes)), *chain(*(("--buy", text) for text in edits.buy))]
        priced = bool(edits.buy)
        return SurvivalRemedy(
            list(edits.addNodes),
            list(edits.buy),
            list(edits.shapes),
            cost=float(money.number(cost)) if priced else None,
            bound=float(money.number(bound)) if priced else float(bound),
            certified=True,
            options=options,
        )

    # --- queries --------------------------------------------------------------------------------------------------------

    def _trial_cluster(self, counts: Counts) -> FailureSearch:
        """Return the search for failures of the cluster with a purchase. The latest ones are cached."""
        if counts not in self._trial_clusters:
            edits = edits_of(self.offers, counts)
            edited = apply(self.snapshot, None, edits).snapshot if any(counts) else self.snapshot
            self._trial_clusters[counts] = FailureSearch(edited, self.request, domains(edited, self.request), self.context)
            while len(self._trial_clusters) > _MAX_CACHED_CLUSTERS:
                self._trial_clusters.pop(next(iter(self._trial_clusters)))
        return self._trial_clusters[counts]

    def _quick(self, counts: Counts, failed: Failed) -> ScenarioVerdict | None:
        """Return the verdict of bounds and construction on a failure, with a purchase. None if the nodes that fail are not in it."""
        key = counts, failed
        if key not in self._looks:
            trial_cluster = self._trial_cluster(counts)
            if any(name not in trial_cluster.nodes for name in failed):
                return None
            self._looks[key] = trial_cluster.decide(failed, self._part(_FAILURE_TIME_FRACTION), quick=True)
            self.context.deadline.charge(QUICK_SECONDS)
            self.context.report("remedy", detail=f"{len(self._looks)} failures tried, now with {self._describe(counts)}")
        return self._looks[key]

    def _left(self, counts: Counts, failed: Failed) -> int:
        """Return the number of pods that stay pending after a failure, with a purchase, in the best answer found."""
        key = counts, failed
        if key not in self._verdicts:
            trial_cluster, part = self._trial_cluster(counts), self._part(_FAILURE_TIME_FRACTION)
            verdict = trial_cluster.decide(failed, part)
            if self.request.preemption and not verdict.survives:
                verdict = decide_preempting(trial_cluster.snapshot, trial_cluster.gone(failed), self.request, verdict, part)
            self._verdicts[key] = verdict
            self.context.deadline.charge(part.deadline.elapsed())
        return len(self._verdicts[key].pending)

    def _cures(self, counts: Counts, failed: Failed) -> bool | None:
        """Return whether all pods return after a failure, with a purchase; None if unknown."""
        key = counts, failed
        if key not in self._cured:
            if self.context.over() or len(self._looks) > _MAX_DECISIONS:
                return None
            self._cured[key] = self._decided(counts, failed)
        return self._cured[key]

    def _decided(self, counts: Counts, failed: Failed) -> bool | None:
        look = self._quick(counts, failed)
        if look is None or look.survives:
            return True
        if not self.request.preemption:
            if look.least:
                return False
            trial_cluster = self._trial_cluster(counts)
            if look.displaced * len(trial_cluster.snapshot.nodes) <= _MAX_MODEL_PAIRS:  # a separate model is faster than a full search
                aftermath, options = after(trial_cluster.snapshot, trial_cluster.gone(failed), self.request), self.context.options
                question = PlacementQuestion(
                    aftermath.snapshot, tuple(aftermath.back), len(aftermath.back), options.exempt, hard(options.policy)
                )
                part = self._part(_FAILURE_TIME_FRACTION)
                feasible = question.feasible(part)
                self.context.deadline.charge(part.deadline.elapsed())
                return feasible
        if not self._left(counts, failed):
            return True
        return False if self._verdicts[counts, failed].least else None

    def _refuted(self, counts: Counts) -> bool | None:
        """Return True if some known failure is not survived with a purchase; None if that is unknown for one.

        The failure that refutes the purchase moves to the front of ``known``.
        """
        if any(not each.suffices(counts) for each in self._rooms):
            return True
        unsure = False
        for failed in self.known:
            cures = self._cures(counts, failed)
            if cures is False:
                self.known.remove(failed)
                self.known.insert(0, failed)
                return True
            unsure |= cures is None
        return None if unsure else False

    def _certifies(self, counts: Counts) -> bool | None:
        """Return True if the certificate holds with a purchase, False if it has a counterexample, and None if undecided.

        Counterexamples are added to ``known``.
        """
        if counts not in self._certified:
            if self.context.over() or len(self._certified) >= _MAX_CERTIFICATES:
                return None
            part = replace(self._part(_CERTIFICATE_TIME_FRACTION).options, causes=False)
            self.context.deadline.charge(part.time_limit or 0.0)
            self.context.report("remedy", detail=f"the certificate with {self._describe(counts)}")
            survival = survive(self._trial_cluster(counts).snapshot, self.request, part, stop=self.context.stop, pool=self.pool)
            new = [tuple(each.failed) for each in survival.counterexamples]
            self.known[:0] = [failed for failed in new if failed not in self.known]
            self._certified[counts] = True if survival.certified else False if new else None
        return self._certified[counts]

    def _part(self, share: float) -> RunContext:
        return self.context.fraction(share, 0.5)

    def _describe(self, counts: Counts) -> str:
        return ", ".join(f"{n}:{offer.text}" for n, offer in zip(counts, self.offers, strict=True) if n) or "no more nodes"

    # --- growth ---------------------------------------------------------------------------------------------------------

    def _grown(self) -> Counts | None:
        """Return a certified purchase, extended for one counterexample after another."""
        counts: Counts = (0,) * len(self.offers)
        while not self.context.over():
            failed = next((each for each in self.known if self._cures(counts, each) is not True), None)
            if failed is None:
                certified = self._certifies(counts)
                if certified is not False:
                    return counts if certified and self._allowed(counts) else None
                continue
            more = self._cure(counts, failed)
            if more is None:
                return None
            counts = more
        return None

    def _cure(self, counts: Counts, failed: Failed) -> Counts | None:
        """Return the purchase with more nodes that cures a failure. None if there is none.

        Prefer one kind of node that cures it alone, at the least cost. Otherwise return the purchase with one node more that
        returns the most pods for its price.
        """
        before = self._quick(counts, failed)
        best: Counts | None = None
        candidates: list[tuple[int, Counts]] = []
        for c, offer in enumerate(self.offers):
            if before is None or offer.domain in failed:
                continue
            upper = min(_MAX_NODES_AT_ONCE, before.displaced, offer.max_nodes - self._of_shape(counts, c))
            if best is not None:
                upper = min(upper, (self.cost(best) - 1 - self.cost(counts)) // max(1, offer.cost))
            if upper <= 0:
                continue
            with_more = partial(self._with, counts, c)
            number = least(lambda n, w=with_more: self._cures(w(n), failed), 1, upper, self._guess(counts, c))  # type: ignore[misc]
            if number is not None and self._allowed(with_more(number[0])):
                best = with_more(number[0])
            elif best is None:
                candidates.append((max(1, offer.cost), with_more(1)))
        if best is None and before is not None and not self.context.over():
            return self._partly(counts, failed, candidates)
        return best

    def _partly(self, counts: Counts, failed: Failed, candidates: Sequence[tuple[int, Counts]]) -> Counts | None:
        """Return the candidate purchase that returns the most additional pods for its price.

        Return None if time is up or no candidate returns any; ``why`` then has the reason for the latter.

        Args:
            counts: The purchase so far.
            failed: The failure that should be survived.
            candidates: Additional price and purchase of each candidate.
        """
        before = self._left(counts, failed)
        gains = [((before - self._left(more, failed)) * 10**9 // cost, more) for cost, more in candidates if not self.context.over()]
        gain, more = max(gains, default=(0, counts))
        if gain > 0:
            return more
        if not self.context.over():
            pending = self._verdicts[counts, failed].pending
            self.why = f"no kind of node that was tried can hold {pending[0] if pending else 'pods'} when {self._named(failed)}"
        return None

    def _named(self, failed: Failed) -> str:
        key = "zone" if self.request.fail == ZONE else self.request.key or "node"
        return f"{key} {', '.join(failed)} {'fail' if len(failed) > 1 else 'fails'}"

    def _guess(self, counts: Counts, c: int) -> int:
        return max([1, *(each.needed(counts, c) for each in self._rooms)])

    def _with(self, counts: Counts, c: int, more: int) -> Counts:
        return (*counts[:c], counts[c] + more, *counts[c + 1 :])

    def _of_shape(self, counts: Counts, c: int) -> int:
        """Return the number of nodes of an offer's shape, in all zones."""
        shape = self.offers[c].shape
        return counts[c] if shape is None else sum(n for n, offer in zip(counts, self.offers, strict=True) if offer.shape == shape)

    def _allowed(self, counts: Counts) -> bool:
        """Return True if the catalogue allows the purchase."""
        bought_counts: Counter[str] = Counter()
        for n, offer in zip(counts, self.offers, strict=True):
            if offer.shape is not None:
                bought_counts[offer.shape.name] += n
        within = self.catalogue is None or self.catalogue.within_spot(bought_counts)
        return within and all(self._of_shape(counts, c) <= offer.max_nodes for c, offer in enumerate(self.offers))

    # --- cheaper purchases ----------------------------------------------------------------------------------------------

    def _reduced(self, counts: Counts) -> Counts:
        """Return a purchase without the nodes that are not needed; the dearest ones are removed first."""
        order = sorted(range(len(self.offers)), key=lambda c: -self.offers[c].cost)
        for c in order:
            while counts[c]:
                fewer = self._with(counts, c, -1)
                if not self._allowed(fewer) or self._refuted(fewer) is not False or not self._certifies(fewer):
                    break
                counts = fewer
        return counts

    def _cheapest(self, best: Counts | None) -> Counts | None:
        """Return the cheapest certified purchase, as far as time allows; record the proved ``floor``."""
        sure = True
        for counts in self._ascending():
            cost = self.cost(counts)
            if sure:
                self.floor = cost
            if (best is not None and cost >= self.cost(best)) or self.context.over() or len(self._looks) > _MAX_DECISIONS:
                break
            refuted = self._refuted(counts) or not self._allowed(counts)
            certified = False if refuted else self._certifies(counts)
            if certified:
                return counts
            sure &= certified is False
        return best

    def _ascending(self) -> Iterator[Counts]:
        """Yield every purchase once, by cost, then by the number of its nodes."""
        start: Counts = (0,) * len(self.offers)
        heap: list[tuple[int, int, Counts, int]] = [(0, 0, start, 0)]  # negated: ties prefer more of the first offers
        while heap:
            cost, number, below, first = heapq.heappop(heap)
            counts = tuple(-n for n in below)
            yield counts
            for c in range(first, len(self.offers)):
                if self._of_shape(counts, c) < self.offers[c].max_nodes:
                    heapq.heappush(heap, (cost + self.offers[c].cost, number + 1, self._with(below, c, -1), c))
