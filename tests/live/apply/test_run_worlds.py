"""Random clusters over HTTP: every run ends as the document says, or stops with a reason and leaves nothing of itself behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from live.apply.run import Outcome
from tests.api_server import Faults, Server
from tests.live.apply.applying import Applying
from tests.live.apply.worlds import TASKS, Posed, foreign, left_behind, posed

FAULTS = Faults(
    error_before=0.03, error_after=0.03, lost_before=0.02, lost_after=0.03, throttled=0.03, retry_after=0, watch_events=40, gone=0.1
)
QUICK, KILLS = 10, 20


def judged(case: Posed, outcome: Outcome) -> None:
    assert outcome.not_opened == []
    assert left_behind(case, drained=outcome.state == "done") == []
    assert foreign(case) == []
    if outcome.state == "done":
        assert outcome.missed == [], outcome.message
    else:
        assert outcome.state == "stopped"
        assert outcome.reasons, outcome


def carried_out(task: str, seed: int, path: Path, faults: Faults | None = None) -> tuple[Posed, Outcome]:
    case = posed(task, seed, faults)
    with Server(case.world) as server:
        outcome = Applying(server, case.document, case.snapshot, path)()
    judged(case, outcome)
    return case, outcome


@pytest.mark.parametrize("seed", range(QUICK))
def test_a_few_worlds(seed: int, tmp_path: Path) -> None:
    case, outcome = carried_out(TASKS[seed % len(TASKS)], seed, tmp_path)
    print(case.seed, outcome.state, outcome.message)
