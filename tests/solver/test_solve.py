"""The status of a result: what was asked for and is not proved makes it feasible, a tie-break that nobody asked for does not. And the time
that is kept for what comes after the search."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kubestow.checker.placement import verify
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.policy import Policy, Strategy
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver import soft_tiers
from kubestow.solver.runtime import deadline
from kubestow.solver.runtime.deadline import afterwards
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests import tiny_soft
from tests.objects import node, pod


def uneven() -> Snapshot:
    """Pods that no placement spreads, or packs, as well as the engine greedy can prove."""
    return from_objects([*(node(f"n{i}", cpu="4") for i in range(5)), *(pod(f"p{i}", cpu=cpu) for i, cpu in enumerate("33332"))])


def greedy(snapshot: Snapshot, **options: Any) -> Placement:
    result = place(snapshot, Options(engine="greedy", **options))
    assert [t.value == t.bound for t in result.objective] == [True, False]
    assert result.objective[1].tier == "strategy"
    return result


def test_an_open_tie_break_that_nobody_asked_for_leaves_the_answer_optimal() -> None:
    snapshot = uneven()
    result = greedy(snapshot)
    assert result.status == "optimal"
    assert verify(snapshot, result) == []


@pytest.mark.parametrize(("strategy", "requested"), [("spread", True), ("pack", False), ("pack", True)])
def test_one_that_was_asked_for_makes_it_feasible(strategy: Strategy, requested: bool) -> None:
    snapshot = uneven()
    result = greedy(snapshot, policy=Policy(strategy=strategy), search_strategy=requested)
    assert result.status == "feasible"
    result.status = "optimal"
    # That `--strategy spread` was given is not in the document; it equals the default there.
    violations = [violation.why for violation in verify(snapshot, result)]
    assert bool(violations) == (strategy == "pack")
    assert all(why.startswith("the status is optimal, and tier strategy has value ") for why in violations)


# --- the time that is kept for what comes after the search -------------------------------------------------------------------------


def test_what_comes_afterwards_is_told_from_what_came_before() -> None:
    """On a machine that is three times slower it takes three times as long; long reading alone, as of YAML, says nothing."""
    once = afterwards(2.0, 1.0, 600.0)
    assert once >= 6.0
    assert afterwards(6.0, 3.0, 600.0) == pytest.approx(3 * once)
    assert afterwards(1000.0, 1.0, 600.0) == afterwards(3.0, 1.0, 600.0)
    assert afterwards(1000.0, 500.0, 60.0) == 30.0
    assert afterwards(2.0, 1.0, None) == 0.0


def test_the_search_of_what_was_read_slowly_ends_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clock begins before the run, by the recorded time, which exceeds that of compiling alone."""
    kept: list[float] = []
    before = deadline.Deadline.__init__

    def noted(self: deadline.Deadline, options: Options, started: float) -> None:
        kept.append(began - started)
        before(self, options, started)

    snapshot = uneven()
    place(snapshot, Options(engine="greedy"))  # the first import takes longer than compiling
    monkeypatch.setattr(deadline.Deadline, "__init__", noted)
    monkeypatch.setattr("kubestow.solver.runtime.deadline.MAX_READING_RATIO", 1e9)
    began = time.monotonic() - 10
    place(snapshot, Options(engine="greedy"), began=began)
    assert kept[0] >= 20


@pytest.mark.parametrize("deterministic", [False, True])
def test_pods_are_not_evened_out_when_time_is_up(monkeypatch: pytest.MonkeyPatch, deterministic: bool) -> None:
    """By the clock; with --deterministic the clock decides nothing."""
    called: list[object] = []
    monkeypatch.setattr(soft_tiers._LaterTiersSearch, "_even_out", lambda *given, **_: called.append(given))
    spread = [{"maxSkew": 5, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "a"}}}]
    snapshot = from_objects(
        [
            *(node(f"n{i}", cpu=cpu, labels={"zone": f"z{i}"}) for i, cpu in enumerate("14")),
            *(pod(f"p{i}", cpu="1", labels={"app": "a"}, topologySpreadConstraints=spread) for i in range(4)),
            pod("q", cpu="1", nodeSelector={"zone": "z0"}),
        ]
    )
    place(snapshot, Options(time_limit=1e-9, deterministic=deterministic))
    assert bool(called) == deterministic


@pytest.mark.parametrize("kind", tiny_soft.KINDS)
def test_preferences_of_very_many_pods_are_bounded_alone(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """With more pods than that, the engine greedy moves none. Both values are those that the checker finds."""
    monkeypatch.setattr(soft_tiers, "LARGE_INSTANCE_PODS", 0)
    open_ = 0
    for seed in range(6):
        snapshot = from_objects(tiny_soft.snapshot(seed, kind))
        built, best = (place(snapshot, Options(engine=engine, deterministic=True, workers=1)) for engine in ("greedy", "exact"))
        tiers, proved = ([t for t in result.objective if t.tier == "soft"] for result in (built, best))
        if not tiers or [t.value for t in built.objective if t.tier == "placed"] != [t.value for t in best.objective if t.tier == "placed"]:
            continue
        assert tiers[0].value <= proved[0].value <= tiers[0].bound, f"seed {seed}"
        open_ += tiers[0].value < tiers[0].bound
    assert open_ or kind in ("nodes", "numa")
