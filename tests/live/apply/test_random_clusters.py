"""Random clusters over HTTP: every run ends as the document says, or stops with a reason and leaves no trace."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from kubestow.live.apply.run import RunOutcome
from tests.api_server import Faults, Server
from tests.live.apply.applying import Applying
from tests.live.apply.random_clusters import RIVAL, TASKS, Posed, add_rivals, posed
from tests.live.apply.verdicts import foreign, half_done, left_behind, unlike_the_document

FAULTS = Faults(
    error_before=0.03,
    error_after=0.03,
    lost_before=0.02,
    lost_after=0.03,
    throttled=0.03,
    retry_after=0,
    watch_events=40,
    gone=0.1,
)


def judged(case: Posed, outcome: RunOutcome, *, resumed: bool = False) -> None:
    """Compare the statements of a run with the log of the world. ``stopped`` counts only if others had a hand in it."""
    assert outcome.not_opened == []
    assert left_behind(case, drained=outcome.state == "done") == []
    assert foreign(case, resumed=resumed) == []
    if outcome.state == "done":
        assert outcome.missed == [], outcome.message
        assert unlike_the_document(case) == []
    else:
        assert outcome.state == "stopped"
        assert any(RIVAL in reason for reason in outcome.reasons), outcome
        assert outcome.standing == []
        assert half_done(case) == []


def carried_out(task: str, seed: int, path: Path, faults: Faults | None = None, *, rivals: bool = False) -> tuple[Posed, RunOutcome]:
    case = posed(task, seed, faults)
    if rivals:
        add_rivals(case)
    with Server(case.world) as server:
        outcome = Applying(server, case.document, case.snapshot, path)()
    judged(case, outcome)
    return case, outcome


def numbers(quick: int, full: int, slow: int) -> list[Any]:
    """Return seeds: the first ones in the quick tier, more in the full one, the rest in the slow one."""
    return [pytest.param(n, marks=[] if n < quick else pytest.mark.full if n < full else pytest.mark.slow) for n in range(slow)]


@pytest.mark.parametrize("seed", numbers(4, 12, 700))
def test_runs_on_random_clusters(seed: int, tmp_path: Path) -> None:
    carried_out(TASKS[seed % len(TASKS)], seed, tmp_path)


@pytest.mark.parametrize("seed", numbers(4, 12, 700))
def test_runs_among_pods_that_come_meanwhile(seed: int, tmp_path: Path) -> None:
    carried_out(TASKS[seed % len(TASKS)], seed, tmp_path, rivals=True)


@pytest.mark.parametrize("seed", numbers(3, 9, 350))
def test_runs_when_requests_fail_and_watches_end(seed: int, tmp_path: Path) -> None:
    carried_out(TASKS[seed % len(TASKS)], seed, tmp_path, FAULTS)


@pytest.mark.parametrize("seed", numbers(2, 8, 500))
def test_killed_at_a_random_request_and_resumed_a_run_reaches_the_same_end(seed: int, tmp_path: Path) -> None:
    """The same seed gives the same cluster again, so the first run shows the number of requests and the end."""
    task, rng = TASKS[seed % len(TASKS)], random.Random(f"kill-{seed}")
    (tmp_path / "whole").mkdir()
    whole, ended = carried_out(task, seed, tmp_path / "whole")
    case = posed(task, seed)
    with Server(case.world) as server:
        applying = Applying(server, case.document, case.snapshot, tmp_path)
        request, effect = rng.randint(1, whole.world.requests), rng.random() < 0.5
        first = applying.killed(lambda kill: server.crash_client_after(request, kill, effect=effect))
        server.revive()
        outcome = applying() if first is None else first
    judged(case, outcome, resumed=True)
    assert outcome.state == ended.state, f"killed at {request} of {whole.world.requests} (effect {effect}): {outcome.message}"
