"""The linear program over domains: never below the optimum of the plain model, nor the parts of groups together."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from kubestow.models.cluster.cluster import Cluster
from kubestow.solver import rules
from kubestow.solver.bounds import component_bounds
from kubestow.solver.bounds.class_groups import groups, parts
from kubestow.solver.bounds.component_bounds import Components
from kubestow.solver.bounds.domain_program import DomainProgram, meetings
from kubestow.solver.bounds.safe_dual_bounds import best_bound
from kubestow.solver.construction.greedy import construct
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.rules.eligibility import fits, possible
from tests import tiny_soft
from tests.objects import Object, node, pod
from tests.solver.bounds.test_coarse_model import HOST, ZONE, alike, best, compiled, near, terms, tighten
from tests.solver.bounds.test_coarse_node_patterns import flocks
from tests.tiers import seeds


def bound_by_domains(cluster: Cluster, unplaced: dict[int, int]) -> int | None:
    """The bound over all classes (None: there is no program)."""
    active = rules.build(cluster)
    domains = DomainProgram(cluster, Objective(cluster, active), possible(cluster, active), unplaced, range(cluster.n_classes))
    made = domains.program()
    return None if made is None else best_bound(*made, seconds=5.0, deterministic=True) + domains.other_points


def check(objects: list[Object], where: str) -> bool:
    """Assert on one instance; whether it has parts or a program that says something."""
    cluster = compiled(objects)
    if not cluster.n_classes:
        return False
    active = rules.build(cluster)
    limits, objective = possible(cluster, active), Objective(cluster, active)
    counts = construct(cluster, active, limits, tries=2).counts
    unplaced = cluster.per_priority(fits(cluster, limits) - counts.sum(axis=1))
    _, optimum = best(cluster, unplaced)
    if optimum is None:
        return False
    bound = bound_by_domains(cluster, unplaced)
    assert bound is None or bound >= optimum, f"{where}: {bound} < {optimum}"
    together = Components(cluster, objective, limits, unplaced)
    for component in together.found:
        tighten(together, component, counts)
    assert together.bound >= optimum, f"{where}: {together.bound} < {optimum}"
    return bound is not None


@pytest.mark.parametrize("make", [alike, flocks])
def test_no_placement_of_a_few_clusters_exceeds_the_program(make: Callable[[int], list[Object]]) -> None:
    assert sum(check(make(seed), f"{make} seed {seed}") for seed in range(100, 125)) > 20


@pytest.mark.full
@pytest.mark.parametrize("kind", tiny_soft.KINDS)
@seeds(35, 100, start=100)
def test_no_placement_exceeds_the_program(seeds: range, kind: str) -> None:
    assert sum(check(tiny_soft.snapshot(seed, kind, nodes=4, pods=5), f"{kind} seed {seed}") for seed in seeds) or kind == "numa"


def test_pairs_on_nodes_are_as_many_as_can_be() -> None:
    """Compared with a search over all ways to fill nodes."""
    rng = random.Random(0)
    for _ in range(60):
        per_node = rng.randint(1, 4), rng.randint(1, 4)
        needs = tuple((rng.randint(2, 9), rng.randint(0, 3), rng.randint(1, 3)) for _ in range(rng.randint(1, 2)))
        pods = rng.randint(1, 5), rng.randint(1, 5)
        nodes = [
            (a, b)
            for a in range(1, per_node[0] + 1)
            for b in range(1, per_node[1] + 1)
            if all(a * x + b * y <= free for free, x, y in needs)
        ]  # fmt: skip

        @cache
        def pairs(k: int, j: int, nodes: tuple[tuple[int, int], ...] = tuple(nodes)) -> int:
            return max((a * b + pairs(k - a, j - b) for a, b in nodes if a <= k and b <= j), default=0)

        table = meetings(pods, per_node, needs)
        assert [[int(table[k, j]) for j in range(pods[1] + 1)] for k in range(pods[0] + 1)] == [
            [pairs(k, j) for j in range(pods[1] + 1)] for k in range(pods[0] + 1)
        ], (pods, per_node, needs)


def flocks_in_zones() -> list[Object]:
    """Three classes, each in one zone, the first of which wants to be with both others on nodes, which have no room for all; and others
    that keep off them."""
    objects = [node(f"n{i}", cpu="4", memory="64Gi", pods="20", labels={ZONE: f"z{i % 2}", HOST: f"n{i}"}) for i in range(6)]
    for app, pulls in (("a", [near("b", HOST, 10), near("c", HOST, 10)]), ("b", []), ("c", [])):
        affinity = terms(pulls, together=[near(app, ZONE)])
        objects += [pod(f"{app}{i}", cpu="1", labels={"app": app}, affinity=affinity) for i in range(4)]
    objects += [pod(f"d{i}", cpu="500m", labels={"app": "d"}, affinity=terms(repels=[near("a", HOST, 3)])) for i in range(3)]
    return objects


def test_classes_that_only_repel_each_other_are_parts_and_bounded_apart() -> None:
    cluster = compiled(flocks_in_zones())
    active = rules.build(cluster)
    objective, limits, linking = Objective(cluster, active), possible(cluster, active), rules.linking(cluster)
    assert len(groups(objective, linking)) == 1
    assert sorted(map(len, parts(objective, linking))) == [1, 3]
    counts = construct(cluster, active, limits).counts
    components = Components(cluster, objective, limits, {0: 0})
    assert [c.split for c in components.found].count(True) == 1
    assert sorted(len(c.classes) for c in components.found if c.whole is not None) == [1, 3]
    before = components.bound
    for component in components.found:
        if component.whole is not None:
            for _ in range(3):
                tighten(components, component, counts)
    _, optimum = best(cluster, {0: 0})
    assert optimum is not None
    assert optimum == components.bound < before


def test_the_first_look_at_a_group_is_the_program() -> None:
    """Each node has room for two pairs with either partner; one by one they would be 16 pairs with each."""
    cluster = compiled(flocks_in_zones())
    active = rules.build(cluster)
    limits = possible(cluster, active)
    counts = construct(cluster, active, limits).counts
    components = Components(cluster, Objective(cluster, active), limits, {0: 0})
    whole = components.found[0]
    ceiling = whole.bound
    assert whole.fresh
    tighten(components, whole, counts)
    assert not whole.fresh
    assert whole.coarse is None
    program = bound_by_domains(cluster, {0: 0})
    assert program is not None
    assert whole.bound == min(ceiling, program) < ceiling


def test_a_large_program_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = compiled(flocks_in_zones())
    monkeypatch.setattr("kubestow.solver.bounds.domain_program.MAX_COLUMNS", 10)
    assert bound_by_domains(cluster, {0: 0}) is None


def test_losses_of_a_group_with_parts_are_what_these_cost_each_other() -> None:
    cluster = compiled(flocks_in_zones())
    active = rules.build(cluster)
    components = Components(cluster, Objective(cluster, active), possible(cluster, active), {0: 0})
    (whole,) = [i for i, c in enumerate(components.found) if c.split]
    d = next(g for g in range(cluster.n_classes) if cluster.count[g] == 3)
    a = next(g for g in range(cluster.n_classes) if cluster.classes[g].pulls and g != d)
    counts = np.zeros((cluster.n_classes, cluster.n_nodes), dtype=np.int64)
    counts[d, 0], counts[a, 0] = 2, 3
    assert components.loss(whole, counts) == 3 * 2 * 3
    assert component_bounds.Components.loss(components, whole, np.zeros_like(counts)) == 0
