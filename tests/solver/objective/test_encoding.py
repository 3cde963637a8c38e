"""The soft objective: the model's value of a placement is the incremental state's, the formula's and the checker's."""

from __future__ import annotations

import random

import numpy as np
import pytest
from ortools.sat.python import cp_model

from kubestow.checker.objective import preferences
from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot.scope import select
from kubestow.solver import rules
from kubestow.solver.bounds.component_bounds import Components
from kubestow.solver.construction.greedy import construct
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.objective import encoding as objective_encoding
from kubestow.solver.objective.assign_zones import assign, value_of
from kubestow.solver.objective.incremental_score import SoftState
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.star_cuts import SCALE, Leaf, planes
from kubestow.solver.rules.eligibility import possible
from kubestow.solver.rules.placement_model import build_model
from tests import tiny_soft
from tests.tiers import sampled

INSTANCES = 80


def compiled(seed: int, kind: str) -> Cluster:
    snapshot = snapshots.from_objects(tiny_soft.snapshot(seed, kind))
    return compile_cluster(snapshot, select(snapshot))


def best_in_model(cluster: Cluster, encoding: PlacementModel, objective: Objective, counts: Ints) -> int | None:
    """CP-SAT's optimum of the soft objective with the placement fixed; None where the model refuses it."""
    points = objective_encoding.encode(encoding, objective)
    for cell, variable in encoding.x.items():
        encoding.model.add(variable == int(counts[cell]))
    encoding.model.maximize(points.expression())
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(encoding.model)
    if status != cp_model.OPTIMAL:
        return None
    value = round(solver.objective_value)
    assert points.value(list(solver.response_proto.solution)) == value
    return value


@pytest.mark.parametrize("kind", sampled(tiny_soft.KINDS, every=6))
def test_every_reading_of_the_objective_agrees(kind: str) -> None:
    """On placements that greedy reaches, with a random part of the pods taken out again."""
    some = 0
    for seed in range(INSTANCES):
        cluster = compiled(seed, kind)
        active = rules.build(cluster)
        built = construct(cluster, rules.build(cluster), possible(cluster, active))
        objective = Objective(cluster, active)
        rng = random.Random(seed)
        sequence = [(g, n, 1) for g, n, k in built.sequence for _ in range(k)]
        if kind != "spread" and rng.random() < 0.5 and not any(c.affinity or c.spread for c in cluster.classes):
            sequence = [step for step in sequence if rng.random() < 0.7]
        counts = np.zeros_like(built.counts)
        state, total = SoftState(objective), 0
        for g, n, _ in sequence:
            total += int(state.gain(g)[n])
            state.place(g, n)
            counts[g, n] += 1
        empty = objective.total(objective.families(np.zeros_like(counts)))
        families = objective.families(counts)
        assert total == objective.total(families) - empty, f"{kind} seed {seed}"

        names = cluster.nodes.names
        keys = {pod_key(cluster.snapshot.pods[i]) for i in cluster.scope.pending}
        dealt = [0] * cluster.n_classes
        placed = {}
        for g, n, _ in sequence:
            placed[pod_key(cluster.snapshot.pods[cluster.classes[g].pods[dealt[g]]])] = names[n]
            dealt[g] += 1
        checked = preferences.score(cluster.snapshot, placed, (), DEFAULT, pending=keys).families
        assert {family: families[family] for family in checked} == checked, f"{kind} seed {seed}"

        value, zones = value_of(objective, counts, sequence)
        assert zones.points == assign(cluster, objective.containers, sequence).points
        modelled = best_in_model(cluster, build_model(cluster, rules.build(cluster)), objective, counts)
        assert modelled == value, f"{kind} seed {seed}"
        unplaced = {int(p): int(sum(cluster.count)) for p in cluster.priority}
        assert Components(cluster, objective, possible(cluster, active), unplaced).bound >= value, f"{kind} seed {seed}"
        some += value != 0
    assert some > INSTANCES // 10


def test_planes_lie_above_every_whole_point() -> None:
    rng = random.Random(1)
    for _ in range(60):
        leaves = [Leaf(rng.randint(1, 60), rng.choice((0, 0, 5)), rng.randint(1, 5), rng.randint(1, 9)) for _ in range(rng.choice((1, 2)))]
        repulsion, high = rng.choice((0, 10, 50)), rng.randint(1, 6)
        for plane in planes(repulsion, high, rng.randint(1, 9), leaves, rng.randint(1, 6)):
            for a in range(high + 1):
                for bs in np.ndindex(*(leaf.high + 1 for leaf in leaves)):
                    points = -repulsion * a * (a - 1) + sum(
                        leaf.weight * a * b - leaf.repulsion * b * (b - 1) for leaf, b in zip(leaves, bs, strict=True)
                    )
                    bound = plane.alpha * a + plane.gamma + sum(beta * b for beta, b in zip(plane.beta, bs, strict=True))
                    assert SCALE * points <= bound
