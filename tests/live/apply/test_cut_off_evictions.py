"""Evictions that a killed process left half done: the budget is used up for two minutes, and the pod is still there."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kubestow.live.api.answers import Object
from kubestow.live.apply.drift import Rejection
from kubestow.live.apply.run import RunListener, RunOptions
from tests.live.apply.fake_cluster import nodes
from tests.live.apply.small_cluster import SmallCluster, plan, refused, running, waiting
from tests.live.apply.test_run import Run

#: Time limit for waits that must fail.
SHORT = RunOptions(timeout=0.05, pause=0.01)
#: Less than is waited here until a budget forgets, and enough for anything else on a busy machine.
LESS = RunOptions(timeout=4.0, pause=0.01)
SAID = "PodDisruptionBudget default/web counts pod default/web-1 as evicted although it runs: an eviction was interrupted; "


def budget(left: float, pod: str = "web-1") -> Object:
    """Return a budget that forgets an announced eviction after the given number of seconds."""
    since = (datetime.now(UTC) - timedelta(seconds=125 - left)).isoformat().replace("+00:00", "Z")
    status = {"disruptionsAllowed": 0, "disruptedPods": {pod: since}}
    return {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"}, "status": status
    }  # fmt: skip


class Notes(RunListener):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)


def refusing(world: SmallCluster, times: int) -> None:
    world.refuses["eviction"] = [refused(429, "TooManyRequests", "the budget says no")] * times


@pytest.mark.full
def test_a_refusal_because_of_an_eviction_that_was_cut_off_is_waited_out_and_said_once(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"), budget(60))
    refusing(world, 1_000_000)
    first: list[float] = []

    def relent(method: str, path: str) -> None:
        if path.endswith("eviction"):
            first.append(time.monotonic())
            if first[-1] - first[0] > LESS.timeout + 0.5:
                refusing(world, 0)

    world.on_request = relent
    notes = Notes()
    outcome = Run(world, plan((1, "web-1", "n1", "n2")), tmp_path)(LESS, notes)
    assert outcome.state == "done", outcome.message
    assert first[-1] - first[0] > LESS.timeout
    assert len(notes.notes) == 1
    assert re.fullmatch(re.escape(SAID) + r"the cluster forgets it after two minutes, in (60|5\d) s or earlier", notes.notes[0])


def test_a_budget_is_not_waited_for_longer_than_it_remembers(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"))
    refusing(world, 100_000)
    first: list[float] = []

    def refuse(method: str, path: str) -> None:
        if path.endswith("eviction") and not first:
            first.append(time.monotonic())
            world.put(budget(0.3))

    world.on_request = refuse
    outcome = Run(world, plan((1, "web-1", "n1", "n2")), tmp_path)(SHORT)
    assert outcome.state == "stopped"
    assert 0.25 < time.monotonic() - first[0] < 60


def test_other_pods_and_pods_that_are_gone_are_no_reason_to_wait(tmp_path: Path) -> None:
    for pod in ("other", "nobody"):
        (tmp_path / pod).mkdir()
        world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"), running("other", "n1"), budget(60, pod))
        refusing(world, 10_000)
        notes = Notes()
        assert Run(world, plan((1, "web-1", "n1", "n2")), tmp_path / pod)(SHORT, notes).state == "stopped"
        assert notes.notes == []


@pytest.mark.full
def test_the_check_before_a_wave_waits_it_out_too(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"), waiting("later"), budget(60))
    began: list[float] = []

    def judge(*given: object) -> list[Rejection]:
        began.append(time.monotonic())
        waited = began[-1] - began[0] > LESS.timeout + 0.5
        return [] if waited else [Rejection("PodDisruptionBudget default/web allows 0 disruptions", budget=True)]

    notes = Notes()
    run = Run(world, plan((1, "web-1", "n1", "n2")), tmp_path, judge)
    world.put(running("new", "n2"))  # so that there is something to judge
    assert run(LESS, notes).state == "done"
    assert [note for note in notes.notes if note.startswith(SAID)] == notes.notes[:1]
