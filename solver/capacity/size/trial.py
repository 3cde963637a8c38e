"""The trial of a purchase: the cluster with these nodes, and whether every pending pod can be placed on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from kubestow.models.catalogue.catalogue import Offer
from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.scope import select
from kubestow.models.workloads.expand import Expansion
from kubestow.solver import rules
from kubestow.solver.bind_order.order import most_in_order
from kubestow.solver.capacity.size.purchase_cluster import PurchaseBase
from kubestow.solver.construction.greedy import complete
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.placed_steps import PlacedAnswer
from kubestow.solver.placed_tiers import PlacedSearch
from kubestow.solver.rules.eligibility import possible
from kubestow.solver.runtime.run_context import RunContext


@dataclass
class Start:
    """A packing of the menu's classes.

    Attributes:
        pods: Keys of each class's pods.
        bought: Pods by class on each purchased node, in the order of the purchase.
        there: Pods by class on existing nodes, by name.
    """

    pods: list[list[str]]
    bought: Sequence[Mapping[int, int]]
    there: Mapping[str, Mapping[int, int]]

    def counts(self, cluster: Cluster, names: Sequence[str]) -> Ints:
        """Return int64[G, N] for the cluster of a purchase. Its classes may differ, but its pods are the same."""
        home = {pod_key(cluster.snapshot.pods[i]): g for g, cls in enumerate(cluster.classes) for i in cls.pods}
        place = {name: n for n, name in enumerate(cluster.nodes.names)}
        keys_by_class = [iter(keys) for keys in self.pods]
        counts = np.zeros((cluster.n_classes, cluster.n_nodes), dtype=np.int64)
        for name, pods in (*zip(names, self.bought, strict=False), *self.there.items()):
            for g, k in pods.items():
                for key in islice(keys_by_class[g], k):
                    counts[home[key], place[name]] += 1
        return counts


@dataclass
class PurchaseTrial:
    """The result of a purchase.

    Attributes:
        names: Names of the purchased nodes, in their order.
        refuted: True if it is proved that not everything fits.
    """

    bought: list[tuple[Offer, int]]
    expansion: Expansion
    cluster: Cluster
    eligibility: Ints
    objective: Objective
    answer: PlacedAnswer
    names: list[str]

    @property
    def complete(self) -> bool:
        return int(self.answer.counts.sum()) == len(self.cluster.scope.pending)

    @property
    def refuted(self) -> bool:
        return sum(self.answer.bounds.values()) < len(self.cluster.scope.pending)


class _Started(PlacedSearch):
    """A search that starts from a given placement, or from the part of it that has a bind order."""

    start: Ints | None = None

    def construct(self, bounds: dict[int, int]) -> PlacedAnswer:
        if self.start is None:
            return super().construct(bounds)
        counts, steps = most_in_order(self.cluster, self.start, {}, seed=self.options.seed)
        if steps.sequence is None:
            return super().construct(bounds)
        counts, sequence = complete(self.cluster, self.eligibility, counts, steps.sequence)
        return PlacedAnswer(counts, sequence, bounds, "greedy", interrupted=self.stop.is_set())


def attempt(
    purchase_base: PurchaseBase, bought: Sequence[tuple[Offer, int]], context: RunContext, start: Start | None = None
) -> PurchaseTrial:
    """Place the pending pods on the cluster with a purchase.

    Args:
        start: A packing that is likely to succeed.
    """
    options = context.options
    expansion = purchase_base.expanded(bought)
    scope = select(expansion.snapshot, from_scratch=options.from_scratch, include_gated=options.include_gated)
    cluster = compile_cluster(expansion.snapshot, scope, daemon_namespaces=options.exempt, policy=options.policy)
    active = rules.build(cluster)
    eligibility = possible(cluster, active)
    objective = Objective(cluster, active)
    names = purchase_base.new_nodes(expansion.snapshot)
    search = _Started(objective, active, eligibility, context)
    if start is not None:
        search.start = np.minimum(start.counts(cluster, names), eligibility)
    return PurchaseTrial(list(bought), expansion, cluster, eligibility, objective, search.run(), names)
