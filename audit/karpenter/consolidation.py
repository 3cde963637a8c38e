"""Karpenter's consolidation, step by step: empty nodes, then several nodes at once, then single nodes, until
nothing changes.

Source: https://github.com/kubernetes-sigs/karpenter, pkg/controllers/disruption (controller.go, emptiness.go,
multinodeconsolidation.go, singlenodeconsolidation.go, consolidation.go).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from kubestow.audit.karpenter.candidates import Candidate, PoolNodes, interwoven, is_reschedulable, survey
from kubestow.audit.karpenter.pools import POOL, NodePool, NodePools
from kubestow.audit.karpenter.prices import Prices, offered, type_of, within_limits
from kubestow.audit.karpenter.simulation import Fits, Simulation
from kubestow.models.catalogue import money
from kubestow.models.catalogue.catalogue import Offer
from kubestow.models.catalogue.nodes import Newcomers
from kubestow.models.documents.findings.karpenter import Command, Method
from kubestow.models.documents.policy import Policy
from kubestow.models.kube import quantity
from kubestow.models.kube.objects import controller_of, pod_key
from kubestow.models.snapshot.snapshot import Snapshot

#: Maximum number of nodes per multi-node step, and maximum number of offers tried as a replacement.
_MAX_BATCH_NODES: Final = 100
_MAX_OFFERS: Final = 12


@dataclass
class _Found:
    """A possible consolidation of some nodes: their pods move to other nodes, or also to a new node of an offer in ``snapshot``."""

    candidates: list[Candidate]
    fits: Fits
    offer: Offer | None = None
    node: str = ""
    snapshot: Snapshot | None = None


@dataclass
class Consolidation:
    """A cluster that Karpenter consolidates.

    Attributes:
        snapshot: The cluster after the steps taken.
        pools: The NodePools.
        prices: Node prices.
        policy: Weights and switches of the policy file.
        exempt: Namespaces exempt from hard anti-affinity.
        over: Returns True when the time is up.
        commands: Steps taken.
        why: Reason why each candidate stays.
        cut: True if the time ran out.
    """

    snapshot: Snapshot
    pools: NodePools
    prices: Prices
    policy: Policy
    exempt: tuple[str, ...]
    over: Callable[[], bool]
    commands: list[Command] = field(default_factory=list)
    why: dict[str, str] = field(default_factory=dict)
    cut: bool = False

    def __post_init__(self) -> None:
        self._original = self.snapshot
        self._field = PoolNodes()
        self._budget: dict[str, int] = {}
        self._dry: Simulation | None = None

    def run(self) -> None:
        """Take steps until none is possible."""
        while self._step():
            if self.over():
                self.cut = True
                return

    def _step(self) -> bool:
        self._field = survey(self.snapshot, self.pools, self.prices)
        self._dry, self.why = None, dict(self._field.blocked)
        return self._empty() or self._several() or self._single()

    # --- the methods --------------------------------------------------------------------------------------------------------------

    def _within(self, candidates: Sequence[Candidate], reason: str) -> list[Candidate]:
        """Return the candidates that the budgets allow at once, in order."""
        allowances = {pool.name: self._field.allowed(self.pools, pool, reason) for pool in self.pools.named.values()}
        found = []
        for each in candidates:
            if allowances[each.pool.name]:
                allowances[each.pool.name] -= 1
                found.append(each)
            else:
                self.why[each.node] = f"the budgets of its NodePool allow no {'more ' * bool(found)}nodes to go for the reason {reason}"
        return found

    def _empty(self) -> bool:
        chosen = self._within([each for each in self._field.candidates if each.empty], "Empty")
        if not chosen:
            return False
        fits = self._simulation().without([each.node for each in chosen]) if any(each.pods for each in chosen) else Fits({}, [])
        return self._take("empty", _Found(chosen, fits))

    def _several(self) -> bool:
        """Consolidate a prefix of the candidates, whose length a binary search finds."""
        chosen = self._within(self._filled(), "Underutilized")
        if len(chosen) < 2:
            return False
        low, high = 1, min(len(chosen), _MAX_BATCH_NODES)
        high = high - 1 if len(chosen) <= high else high
        best: _Found | None = None
        while low <= high and not self.over():
            middle = (low + high) // 2
            attempt = self._try(chosen[: middle + 1])
            if isinstance(attempt, _Found):
                best, low = attempt, middle + 1
            else:
                high = middle - 1
        return best is not None and self._take("multi", best)

    def _single(self) -> bool:
        for each in interwoven(self._filled()):
            if self.over():
                self.cut = True
                return False
            if not self._field.allowed(self.pools, each.pool, "Underutilized"):
                continue
            attempt = self._try([each])
            if isinstance(attempt, _Found):
                return self._take("single", attempt)
            self.why[each.node] = attempt
        return False

    def _filled(self) -> list[Candidate]:
        return [each for each in self._field.candidates if not each.empty]

    # --- one attempt --------------------------------------------------------------------------------------------------------------

    def _simulation(self) -> Simulation:
        if self._dry is None:
            self._dry = Simulation(self.snapshot, self._managed(), self.policy, self.exempt)
        return self._dry

    def _managed(self) -> set[str]:
        return {each.node for each in self._field.candidates}

    def _try(self, candidates: list[Candidate]) -> _Found | str:
        """Return a possible consolidation of the nodes, or the reason why there is none."""
        fits = self._simulation().without([each.node for each in candidates])
        if not fits.unplaced:
            return _Found(candidates, fits)
        some = ", ".join(pod_key(self.snapshot.pods[i]) for i in fits.unplaced[:3]) + (", …" if len(fits.unplaced) > 3 else "")
        others = f"{len(fits.unplaced)} of its pods fit{'s' * (len(fits.unplaced) == 1)} no other node ({some})"
        if self.prices.catalogue is None:
            return f"{others}; replacement by a cheaper node is not checked without --catalogue"
        if all(each.spot for each in candidates) and any(pool.spot for pool in self.pools.named.values()):
            return f"{others}, and Karpenter does not replace spot nodes by spot nodes (SpotToSpotConsolidation is off by default)"
        found = self._replaced(candidates, fits)
        return found if found is not None else f"{others}, and no cheaper node takes them"

    def _replaced(self, candidates: list[Candidate], fits: Fits) -> _Found | None:
        """Return a replacement with the cheapest node that takes the remaining pods and costs less than the nodes.
        None if there is none.
        """
        gone = {each.node for each in candidates}
        request = self._simulation().request(fits.unplaced)
        limit = sum(each.price for each in candidates)
        for pool in sorted(self.pools.named.values(), key=lambda pool: -(pool.spec.weight or 0)):
            nodes = [node for node in self.snapshot.nodes if (node.metadata.labels or {}).get(POOL) == pool.name]
            kept = [node for node in nodes if node.metadata.name not in gone]
            listed = self._cheaper(pool, candidates, request, limit)
            for offer in [each for each in listed if within_limits(pool, kept, each.shape)][:_MAX_OFFERS]:
                if self.over():
                    return None
                found = self._with(candidates, offer)
                if found is not None:
                    return found
        return None

    def _cheaper(self, pool: NodePool, candidates: list[Candidate], request: dict[str, int], limit: int) -> list[Offer]:
        """Return offers below a price with room for a request, cheapest first.

        Several nodes are not replaced by one of the same type or a dearer one, because keeping that node would
        suffice.
        """
        assert self.prices.catalogue is not None
        fitting = [offer for offer in offered(pool, self.prices.catalogue) if offer.cost < limit and _room(offer, request)]
        if len(candidates) > 1:
            own: dict[str, int] = {}
            for each in candidates:
                own[each.type] = min(each.price, own.get(each.type, each.price))
            price_limit = min((own[name] for offer in fitting if (name := type_of(offer.shape)) in own), default=limit)
            fitting = [offer for offer in fitting if offer.cost < price_limit]
        return sorted(fitting, key=lambda each: each.cost)

    def _with(self, candidates: list[Candidate], offer: Offer) -> _Found | None:
        """Return a consolidation of the nodes with a new node of an offer. None if some pods remain."""
        trial = self.snapshot.copy()
        (name,) = Newcomers(trial, self._original).buy(offer.shape, offer.zone, 1)
        fits = Simulation(trial, self._managed(), self.policy, self.exempt, name).without([each.node for each in candidates])
        return None if fits.unplaced else _Found(candidates, fits, offer, name, trial)

    # --- a step -------------------------------------------------------------------------------------------------------------------

    def _take(self, method: Method, found: _Found) -> bool:
        """Apply a step to the snapshot."""
        base = found.snapshot or self.snapshot
        gone = {each.node for each in found.candidates}
        after = base.copy()
        after.nodes = [node for node in base.nodes if node.metadata.name not in gone]
        after.pods, lost = [], []
        for i, pod in enumerate(base.pods):
            if pod.spec.nodeName in gone:
                if not is_reschedulable(pod):
                    continue
                if controller_of(pod) is None:
                    lost.append(pod_key(pod))
                    continue
                pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, nodeName=found.fits.placed.get(i)))
            after.pods.append(pod)
        priced = self.prices.catalogue is not None
        saved = sum(each.price for each in found.candidates) - (found.offer.cost if found.offer is not None else 0)
        self.commands.append(
            Command(
                len(self.commands) + 1,
                method,
                [each.node for each in found.candidates],
                len(found.fits.placed),
                f"{type_of(found.offer.shape)}@{found.offer.zone}" if found.offer is not None else None,
                money.number(saved) if priced else None,
                lost,
            )
        )
        self.snapshot = replace(after)
        return True


def _room(offer: Offer, request: dict[str, int]) -> bool:
    """Return True if a node of an offer has enough total capacity for a request."""
    there = offer.shape.allocatable
    return all(
        value <= (quantity.milli(there[name]) if name == "cpu" else quantity.units(there[name])) if name in there else not value
        for name, value in request.items()
    )
