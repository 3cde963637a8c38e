"""The answer is that of adding unit after unit until the exact engine proves that no more fit."""

from __future__ import annotations

from math import gcd

import msgspec
import pytest

from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.solver.capacity.fit.fit import fit
from kubestow.solver.capacity.fit.question import read
from kubestow.solver.runtime.options import Options
from tests import tiny
from tests.solver.capacity.fit.random_fits import LEFT_OUT, all_fit, drawn, with_gangs
from tests.tiers import sampled

#: Kinds of rules, each with the number of clusters with one template, with two, and with gangs.
KINDS = [kind for kind in tiny.KINDS if kind != "gated"]
ALONE, RATIO, GANGS = 25, 13, 14
OPTIONS = Options(time_limit=60.0, workers=1)
QUICK = Options(time_limit=60.0, workers=1, causes=False)


def check(seed: int, kind: str, snapshot: Snapshot, manifests: Snapshot) -> int:
    """Assert that value and bound of a random cluster are those of brute force, and return the units."""
    if not manifests.workloads:
        return 0
    try:
        partial = not read(snapshot, manifests, LEFT_OUT, QUICK).whole
        found = fit(snapshot, manifests, QUICK, edits=LEFT_OUT)
    except InputError:  # members of a gang that contradict each other
        return 0
    where = f"{kind} seed {seed}: {found.units} of {found.bound}"
    assert found.units == found.bound, where
    deployments = manifests.workloads["Deployment"]
    counts = [d.spec.replicas for d in deployments]
    unit = gcd(*counts) if len(counts) > 1 else counts[0]
    units = k = 0
    # Of one template that is no gang the first that does not fit ends it.
    while k <= (units if partial and len(counts) == 1 else found.units + 3):
        k += 1
        names = [f"Deployment/{d.metadata.namespace}/{d.metadata.name}={k * n // unit}" for d, n in zip(deployments, counts, strict=True)]
        units = k if all_fit(snapshot, manifests, names, partial=partial) else units
    assert found.units == units, f"{where}, brute force {units}"
    return units


@pytest.mark.parametrize("kind", KINDS)
def test_a_few_are_what_brute_force_finds(kind: str) -> None:
    check(1, kind, *drawn(1, kind))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_templates_alone_are_what_brute_force_finds(kind: str) -> None:
    assert sum(check(seed, kind, *drawn(seed, kind)) for seed in range(ALONE)) > 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_templates_in_a_ratio_are_what_brute_force_finds(kind: str) -> None:
    assert sum(check(seed, kind, *drawn(seed, kind, 2)) for seed in range(RATIO))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_gangs_are_what_brute_force_finds(kind: str) -> None:
    assert sum(check(seed, kind, *with_gangs(seed, kind)) for seed in range(GANGS))


@pytest.mark.parametrize("kind", sampled(KINDS, every=4))
def test_what_a_node_more_brings_is_the_answer_with_that_node(kind: str) -> None:
    for seed in range(2):
        snapshot, manifests = drawn(seed, kind, 1 + seed)
        found = fit(snapshot, manifests, OPTIONS, edits=LEFT_OUT)
        assert found.units == found.bound
        for grown in found.growth:
            added = msgspec.structs.replace(LEFT_OUT, addNodes=[f"1:{grown.like}"])
            more = fit(snapshot, manifests, QUICK, edits=added).units - found.units
            assert (grown.units, grown.bound) == (more, more), f"{kind} seed {seed}: a node like {grown.like}"
