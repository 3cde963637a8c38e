"""Plans of tiny clusters against brute force: drains that honor taints, circles with bystanders, and rules broken at the start."""

from __future__ import annotations

import pytest

from tests.plans import kinds
from tests.plans.brute import TooLarge
from tests.plans.cluster import TinyCluster
from tests.solver.rebalance.test_brute_force import agree
from tests.tiers import sampled, thinned

#: Clusters of the slow tier, by kind: 2,000 with Honor and circles, and 5,000 that break something already.
MANY = {"honor": 800, "circle": 1_200, "broken": 5_000}
BLOCK = 100
#: Clusters of the full tier, by kind.
FEW = 40


def _agrees(kind: str, seed: int) -> None:
    case = kinds.KINDS[kind](seed)
    try:
        agree(case.objects, case.goals, case.drain, case.limits)
    except TooLarge:
        pytest.fail(f"{kind} {seed}: the cluster is not tiny")


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_plans_of_a_few_of_each_kind_are_as_good_as_brute_force(kind: str) -> None:
    for seed in range(3):
        _agrees(kind, seed)


@pytest.mark.full
@pytest.mark.parametrize("first", thinned(range(3, FEW, 10), 2))
@pytest.mark.parametrize("kind", kinds.KINDS)
def test_plans_of_each_kind_are_as_good_as_brute_force(kind: str, first: int) -> None:
    for seed in range(first, min(first + 10, FEW)):
        _agrees(kind, seed)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "first"), [(kind, 1_000 + first) for kind, count in MANY.items() for first in range(0, count, BLOCK)])
def test_plans_of_many_of_each_kind_are_as_good_as_brute_force(kind: str, first: int) -> None:
    for seed in range(first, first + BLOCK):
        _agrees(kind, seed)


@pytest.mark.parametrize("first", sampled(range(0, 400, 50), every=8))
def test_a_third_of_the_running_pods_break_something_already(first: int) -> None:
    for seed in range(first, first + 50):
        world = TinyCluster(kinds.broken(seed).objects)
        assert 3 * sum(bool(world.broken(pod.index, world.start)) for pod in world.pods) >= len(world.pods)


@pytest.mark.full
def test_the_cordon_decides_in_many_of_the_drains() -> None:
    """Clusters of the kind honor have other spread verdicts with the cordon than without."""
    different = 0
    for seed in range(100):
        case = kinds.honor(seed)
        different += _exceeded(TinyCluster(case.objects)) != _exceeded(TinyCluster(case.objects, case.drain))
    assert different >= 25


def _exceeded(world: TinyCluster) -> set[tuple[int, int]]:
    """Return pods and nodes where the pod would exceed a maxSkew."""
    nodes = range(len(world.nodes))
    return {
        (pod.index, n) for pod in world.pods for n in nodes if any((depth or 0) > 0 for depth in world.excess(pod.index, n, world.start))
    }
