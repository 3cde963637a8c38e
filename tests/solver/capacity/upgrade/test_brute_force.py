"""Upgrades of tiny pools compared with every order of nodes and every destination."""

from __future__ import annotations

import pytest

from kubestow.checker.capacity.upgrade import check_upgrade
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.capacity.upgrade.pool import UpgradeOptions
from kubestow.solver.capacity.upgrade.upgrade import upgrade
from kubestow.solver.runtime.options import Options
from tests.plans import tiny
from tests.plans.brute import TooLarge
from tests.solver.capacity.upgrade.brute import Brute, Object
from tests.tiers import seeds


def pool_of(seed: int, kind: str) -> tuple[list[Object], list[str]]:
    """A tiny cluster whose nodes, or two of them, are the pool; bare pods and budgets in some only."""
    objects = tiny.cluster(seed, kind)
    if seed % 2:
        bare = [o for o in objects if o["kind"] == "Pod" and not {"ownerReferences", "annotations"} & o["metadata"].keys()]
        objects = [o for o in objects if o not in bare]
    if seed % 3:
        objects = [o for o in objects if o["kind"] != "PodDisruptionBudget"]
    names = [o["metadata"]["name"] for o in objects if o["kind"] == "Node"]
    pool = names[:2] if seed % 4 == 0 else names
    for o in objects:
        if o["kind"] == "Node" and o["metadata"]["name"] in pool:
            o["metadata"]["labels"]["pool"] = "p"
    return objects, pool


def compare(seed: int, kind: str, *, resized: bool = False) -> tuple[bool | None, bool, bool]:
    """Return feasibility by brute force (None: too large) and by the search, and whether infeasibility is proved. ``resized``: pods
    hold other than they ask for."""
    objects, pool = pool_of(seed, kind)
    objects = tiny.resized(objects, seed) if resized else objects
    surge = seed // 4 % 2
    try:
        truth = Brute(objects, pool, surge).feasible()
    except TooLarge:
        truth = None
    snapshot = from_objects(objects)
    found = upgrade(snapshot, UpgradeOptions("pool=p", str(1 - surge), str(surge), options=Options(deterministic=True)))
    assert not check_upgrade(snapshot, found).violations
    assert found.complete != bool(found.blocked)
    if truth is not None:
        assert not (found.complete and not truth), "waves that brute force does not know"
        assert not (found.proved and truth), "a proof that is none"
    return truth, found.complete, found.proved


@pytest.mark.parametrize("kind", ["drain", "tight", "repair"])
def test_a_few_tiny_pools_get_through_where_brute_force_does(kind: str) -> None:
    found = [compare(seed, kind) for seed in range(8)]
    assert [complete for _, complete, _ in found] == [truth for truth, _, _ in found]


@pytest.mark.parametrize("kind", ["drain", "tight", "repair"])
def test_nothing_that_is_not_so_is_proved_while_resizes_wait(kind: str) -> None:
    found = [compare(seed, kind, resized=True) for seed in (2, *range(16, 26))]
    assert any(complete for _, complete, _ in found)


def test_who_keeps_others_away_and_terminates_goes_with_its_node() -> None:
    truth, _, proved = compare(243, "drain")
    assert (truth, proved) == (True, False)


def test_budgets_that_allow_more_once_a_pod_has_moved_prove_nothing() -> None:
    truth, _, proved = compare(681, "drain")
    assert (truth, proved) == (True, False)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["drain", "tight", "repair"])
@seeds(25, 70, start=8)
def test_tiny_pools_get_through_where_brute_force_does(seeds: range, kind: str) -> None:
    found = [compare(seed, kind) for seed in seeds]
    known = [each for each in found if each[0] is not None]
    assert len(known) > 0.8 * len(seeds)
    assert sum(bool(truth) for truth, _, _ in known) > len(seeds) // 9
    missed = [each for each in known if each[0] and not each[1]]
    assert len(missed) <= 1  # budgets that allow more once a pod that was not Ready has moved are not followed
    assert sum(proved for truth, _, proved in known if not truth) >= 0.85 * sum(not truth for truth, _, _ in known)
