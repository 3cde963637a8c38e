"""The share of each class in eligibility equals its result when queried alone."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver import rules
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.rules.base import Rule, StaticRule, kinds
from kubestow.solver.rules.eligibility import alone
from tests import numa_clusters, tiny, tiny_soft

SEEDS = range(12)


def compiled(objects: list[dict[str, Any]]) -> Cluster:
    """A cluster in which each waiting pod has a twin, which is of a class of its own for its priority."""
    twins = [copy.deepcopy(o) for o in objects if o["kind"] == "Pod" and not o["spec"].get("nodeName")]
    for twin in twins:
        twin["metadata"]["name"] += "-twin"
        twin["spec"]["priority"] = 7
    snapshot = from_objects([*objects, *twins])
    return compile_cluster(snapshot, select(snapshot))


def one_by_one(cluster: Cluster, active: list[Rule]) -> Ints:
    """The result of :func:`alone`, with each class queried separately."""
    upper = np.repeat(cluster.count[:, None], cluster.n_nodes, axis=1)
    for g in range(cluster.n_classes):
        for rule in active:
            if not isinstance(rule, StaticRule):
                upper[g] = np.minimum(upper[g], rule.room(g) if rule.local else rule.most(g))
            upper[g][rule.never(g)] = 0
    return upper


@pytest.mark.parametrize("kind", [*tiny.ALL, "numa"])
def test_classes_that_are_alike_are_given_what_each_would_be(kind: str) -> None:
    shared = 0
    for seed in SEEDS:
        cluster = compiled(numa_clusters.cluster(seed) if kind == "numa" else tiny.snapshot(seed, kind, nodes=5, pods=8))
        active = rules.build(cluster)
        assert (alone(cluster, active) == one_by_one(cluster, active)).all(), f"seed {seed}"
        shared += cluster.n_classes - len(kinds(active, range(cluster.n_classes)))
    assert shared


@pytest.mark.parametrize("kind", ["spread", "mixed"])
def test_the_minimum_of_a_soft_constraint_is_over_what_its_owners_can_use(kind: str) -> None:
    several = 0
    for seed in SEEDS:
        cluster = compiled(tiny_soft.snapshot(seed, kind, nodes=5, pods=8))
        active = rules.build(cluster)
        judges = [rule for rule in active if rule.for_good]
        for tally in Objective(cluster, active).tallies:
            reach = np.zeros(cluster.n_nodes, dtype=bool)
            for g in tally.owners:
                reach |= ~np.logical_or.reduce([rule.never(g) for rule in judges])
            codes, _ = cluster.domains(tally.spread.key)
            assert set(np.flatnonzero(tally.usable).tolist()) == set(codes[reach & (codes >= 0)].tolist()), f"seed {seed}"
            several += len(tally.owners) > 1
    assert several
