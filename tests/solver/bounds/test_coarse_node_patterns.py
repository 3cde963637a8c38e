"""Patterns of single nodes, over node classes: the optimum is at least the plain model's, and mostly equals that of single nodes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from kubestow.models.cluster.cluster import Cluster
from kubestow.solver import rules
from kubestow.solver.bounds import coarse_node_patterns
from kubestow.solver.bounds.alike_nodes import alike_nodes
from kubestow.solver.bounds.coarse_model import Coarse
from kubestow.solver.bounds.component_bounds import Components
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.sparse_placement import SparsePlacement
from kubestow.solver.rules.eligibility import fits, possible
from tests.objects import Object, node, pod
from tests.solver.bounds.test_coarse_model import HOST, ZONE, best, compiled, cpsat, near, terms


def flocks(seed: int) -> list[Object]:
    """Classes that attract and repel each other on nodes and in zones: nodes of two sizes, soft spread, a fixed pod now and then."""
    rng = random.Random(f"flocks-{seed}")
    objects: list[Object] = []
    for i in range(rng.randint(4, 8)):
        size = rng.choice(("2", "2", "4"))
        objects.append(node(f"n{i}", cpu=size, memory=rng.choice(("4Gi", "8Gi")), pods=rng.choice(("10", "3")), labels={ZONE: f"z{i % 2}"}))
    apps = "abcd"[: rng.randint(1, 4)]
    if rng.random() < 0.3:
        fixed = terms(pulls=[near(rng.choice(apps), HOST, 5)])
        objects.append(pod("f", cpu="500m", labels={"app": rng.choice(apps)}, affinity=fixed, node_name="n1"))
    for app in apps:
        pulls = [near(rng.choice(apps), rng.choice((HOST, HOST, ZONE)), rng.choice((1, 10, 50))) for _ in range(rng.randint(0, 2))]
        repels = [
            near(rng.choice((app, rng.choice(apps))), rng.choice((HOST, ZONE)), rng.choice((1, 10, 50))) for _ in range(rng.randint(0, 2))
        ]
        apart = [near(app, HOST)] if rng.random() < 0.1 else []
        affinity = terms(pulls, repels, apart)
        if rng.random() < 0.3:
            wish = {"weight": rng.choice((1, 9)), "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z0"]}]}}
            affinity["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}
        spread = []
        if rng.random() < 0.3:
            selector = {"matchLabels": {"app": app}}
            spread = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}]
        shape: dict[str, Any] = {"cpu": rng.choice(("500m", "1")), "memory": rng.choice(("1Gi", "2Gi")), "labels": {"app": app}}
        objects += [pod(f"{app}{i}", **shape, affinity=affinity, spread=spread) for i in range(rng.randint(1, 5))]
    return objects


def coarse_bounds(cluster: Cluster, limit: int) -> list[tuple[list[int], int, int | None, bool]]:
    """Of each group: its classes, the bound by its coarse model, what the model's solution is worth on single nodes (None: it finds no room
    there), and whether a part was left out."""
    active = rules.build(cluster)
    limits, objective = possible(cluster, active), Objective(cluster, active)
    unplaced = dict.fromkeys(np.unique(cluster.priority).tolist(), 0)
    components = Components(cluster, objective, limits, unplaced)
    made = []
    for component in components.found:
        classes = component.classes
        sub = cluster.restricted(classes)
        kinds, pools = alike_nodes(sub, objective, classes, limits[classes])
        coarse = Coarse(sub, np.stack([objective.node_points(g) for g in classes]), limits[classes], kinds, unplaced)
        omitted = coarse.add_patterns(Objective(sub, rules.build(sub)), pools, limit)
        answer = cpsat().run(coarse.encoding.model, 20.0, quick=True)
        if answer.solution is None or answer.bound is None:
            continue  # not all pods fit
        counts = coarse.deal(answer.solution, pools)
        points = None
        if (counts.sum(axis=1) == cluster.count[classes]).all():
            assert (counts <= limits[classes]).all()
            assert (counts.T @ sub.demand <= np.maximum(sub.free, 0)).all()
            points = objective.total(objective.families(SparsePlacement(counts, classes), classes))
        beside = components._pairs_ceiling([classes[g] for g in omitted], single_nodes=True)
        made.append((classes, answer.bound + beside, points, bool(omitted)))
    return made


def check(seed: int, limit: int) -> tuple[int, int]:
    """Assert on one cluster; (groups, those whose bound is met on single nodes)."""
    cluster = compiled(flocks(seed))
    limits = possible(cluster, rules.build(cluster))
    if int(fits(cluster, limits).sum()) < int(cluster.count.sum()):
        return 0, 0
    met = 0
    made = coarse_bounds(cluster, limit)
    for classes, bound, points, _ in made:
        _, optimum = best(cluster.restricted(classes), dict.fromkeys(np.unique(cluster.priority).tolist(), 0))
        assert optimum is not None
        assert bound >= optimum, f"seed {seed}, {limit} variables: classes {classes}: {bound} < {optimum}"
        if points is not None:
            apart = any(cls.anti for cls in cluster.restricted(classes).classes)
            assert points <= optimum or apart, f"seed {seed}: classes {classes}"
            met += points == bound
    return len(made), met


def test_coarse_models_bound_a_few_groups_that_attract_each_other_on_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coarse_node_patterns, "MAX_PART_VARIABLES", 0)
    checks = [check(seed, limit) for seed in range(4) for limit in (0, 40, 5_000)]
    assert sum(groups for groups, _ in checks) > 4


@pytest.mark.slow
def test_coarse_models_bound_groups_that_attract_each_other_on_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coarse_node_patterns, "MAX_PART_VARIABLES", 0)
    for limit in (0, 25, 80):
        assert sum(check(seed, limit)[0] for seed in range(4, 18)) > 8
    checks = [check(seed, 5_000) for seed in range(18, 44)]
    assert sum(met for _, met in checks) > 0.7 * sum(groups for groups, _ in checks)


def test_presolve_loses_no_best_solution() -> None:
    """CP-SAT 9.15 by itself calls 166 optimal here: https://github.com/google/or-tools/issues/5293."""
    rack = "rack"
    objects: list[Object] = [
        node(f"n{i}", cpu="3", memory="8Gi", pods=("10", "3")[i], labels={ZONE: f"z{i}", rack: "r0"}) for i in range(2)
    ]
    even = {"maxSkew": 1, "topologyKey": rack, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "b"}}}
    shapes: dict[str, tuple[int, dict[str, Any]]] = {
        "a": (3, {"cpu": "100m", "affinity": terms(repels=[near("a", rack, 10)])}),
        "b": (
            2,
            {"cpu": "250m", "affinity": terms([near("c", HOST, 10), near("b", ZONE, 50)], together=[near("c", ZONE)]), "spread": [even]},
        ),
        "c": (5, {"cpu": "1", "affinity": terms([near("a", HOST, 10), near("d", HOST, 1)])}),
        "d": (5, {"cpu": "250m", "affinity": terms([near("d", HOST, 10)], apart=[near("d", HOST)])}),
    }
    for app, (pods, shape) in shapes.items():
        objects += [pod(f"{app}{i}", memory="1Gi", labels={"app": app}, **shape) for i in range(pods)]
    cluster = compiled(objects)
    limits, unplaced = possible(cluster, rules.build(cluster)), {0: 2}
    _, optimum = best(cluster, unplaced)
    objective = Objective(cluster, rules.build(cluster))
    kinds, pools = alike_nodes(cluster, objective, range(cluster.n_classes), limits)
    coarse = Coarse(cluster, np.stack([objective.node_points(g) for g in range(cluster.n_classes)]), limits, kinds, unplaced)
    coarse.add_patterns(objective, pools, 5_000)
    assert (optimum, cpsat().run(coarse.encoding.model, 20.0, quick=True).bound) == (168, 168)
