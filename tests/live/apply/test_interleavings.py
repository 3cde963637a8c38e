"""Answers about nodes and events of watches that overtake one another, with a run that is killed at a random request and resumed.

No run may stop: nobody else has a hand in these clusters, so any reason to stop would be a false one.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.api_server import Faults, Server
from tests.live.apply.applying import Applying
from tests.live.apply.test_run_worlds import judged, numbers
from tests.live.apply.worlds import posed

#: The tasks that change nodes most: pods that the scheduler is let in for, drained nodes, and waves.
TASKS = ("admit", "drain", "admit", "repair", "gang")
#: Seconds. Longer than a request and a scheduler's decision take on the stand-in.
LATE = 0.02
#: In this cluster a StatefulSet waits for ever for another pod of its own to be Ready before it replaces one: any run has to stop.
STUCK = ("admit", 7)


def about_nodes(method: str, path: str) -> bool:
    return "/nodes" in path


@pytest.mark.parametrize("seed", numbers(3, 20, 100))
def test_no_order_of_readings_of_nodes_stops_a_run_that_is_killed_and_resumed(seed: int, tmp_path: Path) -> None:
    task, rng = TASKS[seed % len(TASKS)], random.Random(f"interleaved-{seed}")
    case = posed(task, seed if (task, seed) != STUCK else 100, Faults(late=LATE, only=about_nodes))
    with Server(case.world) as server:
        applying = Applying(server, case.document, case.snapshot, tmp_path)
        request, effect = rng.randint(1, 40), rng.random() < 0.5
        outcome = applying.killed(lambda kill: server.crash_client_after(request, kill, effect=effect))
        server.revive()
        resumed = outcome is None
        outcome = applying() if outcome is None else outcome
    assert outcome.state == "done", f"killed at {request} (effect {effect}): {outcome.message}"
    judged(case, outcome, resumed=resumed)
