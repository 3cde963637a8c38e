"""Planted blockers are all named, and nothing else is; the same pools without them get through."""

from __future__ import annotations

import pytest

from kubestow.checker.capacity.upgrade import check_upgrade
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.capacity.upgrade.pool import UpgradeOptions
from kubestow.solver.capacity.upgrade.upgrade import upgrade
from kubestow.solver.runtime.options import Options
from tests.solver.capacity.upgrade.planted import KINDS, TO, Planted
from tests.tiers import sampled

_OPTIONS = Options(deterministic=True)


@pytest.mark.parametrize("seed", sampled(range(50), every=14, full=7))
def test_planted_blockers_are_named_one_by_one(seed: int) -> None:
    kinds = tuple(KINDS[(seed + i) % len(KINDS)] for i in range(1 + seed % 4))
    planted = Planted(seed, kinds)
    found = upgrade(snapshot := from_objects(planted.objects), UpgradeOptions("pool=p", to=TO, options=_OPTIONS))
    assert {(each.node, each.kind, each.object) for each in found.blocked} == planted.held
    assert all(each.proved for each in found.blocked)
    assert (found.complete, found.proved, found.smallestSurge, found.smallestProved) == (False, True, None, True)
    drained = {name for wave in found.waves for name in wave.drain}
    assert drained == set(planted.pool) - {blocked[0] for blocked in planted.held}
    assert not check_upgrade(snapshot, found).violations


@pytest.mark.parametrize("seed", sampled(range(50), every=14, full=7))
def test_the_same_pools_without_blockers_get_through(seed: int) -> None:
    surge, unavailable = (("1", "0"), ("2", "0"), ("0", "1"), ("25%", "1"), ("100%", "0"))[seed % 5]
    request = UpgradeOptions("pool=p", unavailable, surge, "topology.kubernetes.io/zone" if seed % 3 == 0 else None, options=_OPTIONS)
    found = upgrade(snapshot := from_objects(Planted(seed).objects), request)
    assert (found.complete, found.blocked) == (True, [])
    assert not check_upgrade(snapshot, found).violations
