"""Answers about nodes and events of watches that overtake one another, with a run that is killed at a random request and resumed.

No run may stop: nobody else has a hand in these clusters, so any reason to stop would be a false one.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kubestow.models.documents.rebalance_plan import RebalancePlan
from tests.api_server import Faults, Server
from tests.live.apply.applying import Applying
from tests.live.apply.random_clusters import posed
from tests.live.apply.test_random_clusters import judged, numbers

#: The tasks that change nodes most: pods that the scheduler is let in for, drained nodes, and waves.
TASKS = ("admit", "drain", "admit", "repair", "gang")
#: Seconds. Longer than a request and a scheduler's decision take on the stand-in.
LATE = 0.02
#: Left out, because any run has to stop here, as one without faults does: the plan moves p1 of a StatefulSet with podManagementPolicy
#: OrderedReady, whose p0 is never Ready. Its controller makes no p1 before p0 is Ready, on a real cluster and on the stand-in.
STUCK = ("admit", 7)


def about_nodes(method: str, path: str) -> bool:
    return "/nodes" in path


@pytest.mark.parametrize("seed", numbers(3, 9, 100))
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


def test_what_is_left_out_waits_for_a_pod_that_is_never_ready() -> None:
    case = posed(*STUCK)
    assert isinstance(case.document, RebalancePlan)
    assert case.document.moves[0].pod == "default/p1"
    found = {each["metadata"]["name"]: each for each in case.start if each["kind"] in ("Pod", "StatefulSet")}
    assert found["a-set"]["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady"
    for name in ("p0", "p1"):
        assert found[name]["metadata"]["ownerReferences"][0]["name"] == "a-set"
    ready = [each["status"] for each in found["p0"]["status"]["conditions"] if each["type"] == "Ready"]
    assert ready == ["False"]
