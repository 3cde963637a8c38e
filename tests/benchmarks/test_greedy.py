"""`--engine greedy` on planted instances: the sums of its table, and no policy under which its result is refused."""

from __future__ import annotations

from typing import get_args

import pytest

from kubestow.models.documents.policy import Policy, Strategy
from kubestow.models.snapshot.snapshot import load
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.benchmarks.bench_greedy import Family, families, total
from tests.benchmarks.bench_packing import DATA, baseline, instances

pytestmark = pytest.mark.slow


def test_seeds_of_a_family_are_summed() -> None:
    (family,) = families(["rules-16x8-95-s0", "rules-16x8-95-s1"])
    pending = 113 + 132 - baseline()["rules-16x8-95-s0"] - baseline()["rules-16x8-95-s1"]
    assert (family.name, family.pods, family.theirs) == ("rules-16x8-95", 113 + 132, pending)
    assert 0 <= family.ours < pending


def test_fewer_are_left_pending_than_kube_scheduler_leaves() -> None:
    names = instances(["rules-8x4-*", "*-95-*"])
    by_family = families(names)
    assert [f.name for f in by_family] == ["rules-8x4-100", "pack-16x8-95", "rules-16x8-95", "pack-32x8-95", "rules-32x8-95"]
    everything = total(by_family)
    assert everything.theirs is not None
    assert everything.theirs == everything.pods - sum(baseline()[n] for n in names)
    assert everything.ours < everything.theirs


def test_a_family_without_a_record_is_not_in_the_total() -> None:
    rows = [Family("a", 10, 1, 2, 0.5), Family("b", 20, 3, None, 0.25)]
    assert rows[1].cells == ("b", "20", "-", "3 (15.00%)", "-", "0.25")
    assert total(rows) == Family("all", 10, 1, 2, 0.5)


@pytest.mark.parametrize("strategy", get_args(Strategy))
@pytest.mark.parametrize("name", ["pack-16x8-95-s1", "pack-32x8-95-s2", "rules-16x8-95-s2"])
def test_the_result_passes_the_checker_whatever_the_strategy(name: str, strategy: Strategy) -> None:
    policy = Policy(strategy=strategy)
    result = place(load([str(DATA / f"{name}.json.gz")]), Options(engine="greedy", policy=policy))
    assert len(result.assignments) + len(result.unplaced) == result.snapshot.pending
    assert result.engine == "greedy"
