"""Placements and plans of random tiny clusters, as they are printed: what the mutations start from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import msgspec

from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.report.documents.results import result_document
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.rebalance import rebalance
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests import tiny, tiny_soft
from tests.plans import tiny as tiny_plans
from tests.plans.cluster import TinyCluster

Document = dict[str, Any]
_OPTIONS = Options(deterministic=True, workers=1, time_limit=4.0)


@dataclass
class Original:
    """A cluster and a true document of it. ``modelled``: whether :class:`tests.plans.cluster.TinyCluster` knows all its
    rules."""

    objects: Sequence[Document]
    snapshot: Snapshot
    text: bytes
    modelled: bool

    def document(self) -> Document:
        """Return a copy that may be changed."""
        found: Document = json.loads(self.text)
        return found

    @cached_property
    def world(self) -> TinyCluster | None:
        """Return the rules of the cluster by another reading than the checker's, where that knows them all."""
        return TinyCluster(self.objects) if self.modelled else None


def _cluster(number: int) -> tuple[list[Document], bool, bool]:
    """Objects, whether from scratch, whether TinyCluster knows the rules."""
    seed, kind = number // 12, number % 12
    if kind < 4:
        return tiny.snapshot(seed, ("resources", "mixed", "spread", "volumes")[kind]), False, False
    if kind < 7:
        return tiny.with_gangs(tiny.snapshot(seed, ("resources", "anti", "mixed")[kind - 4]), seed), False, False
    if kind < 10:
        return tiny_soft.snapshot(seed, ("mixed", "pods", "numa")[kind - 7]), kind == 7, False
    return tiny_plans.cluster(seed, ("admit", "mixed")[kind - 10]), False, True


@cache
def placement(number: int) -> Original:
    """Return a Placement of a cluster with this number."""
    objects, scratch, modelled = _cluster(number)
    snapshot = from_objects(objects)
    found = place(snapshot, replace(_OPTIONS, from_scratch=scratch))
    return Original(objects, snapshot, msgspec.json.encode(result_document(found)), modelled)


@cache
def plan(number: int) -> Original:
    """Return a RebalancePlan of a cluster with this number; empty ones are passed over."""
    seed, kind = divmod(number, len(tiny_plans.KINDS))
    found: RebalancePlan | None = None
    while found is None or not (found.moves or found.evictions):
        objects = tiny_plans.cluster(seed, tiny_plans.KINDS[kind])
        goals, drain, limits = tiny_plans.plan_options(seed, tiny_plans.KINDS[kind])
        snapshot = from_objects(objects)
        found = rebalance(snapshot, PlanOptions(goals, drain, limits, _OPTIONS))
        seed += 100
    return Original(objects, snapshot, msgspec.json.encode(result_document(found)), True)
