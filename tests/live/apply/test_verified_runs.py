"""Runs over HTTP on the stand-in cluster, with answers that get lost: what their journals tell is held against plan and end by verify."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from kubestow import cli
from kubestow.commands.apply.remaining_steps import judge_rest
from kubestow.live.api.connect import connect
from kubestow.live.api.live_cluster import LiveCluster
from kubestow.live.apply.fence import Pauses
from kubestow.live.apply.journal import Journal, RunOrigin, journal_path
from kubestow.live.apply.run import Execution, RunOptions, RunOutcome
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.report.documents.results import read_with_digest
from tests.api_server import Behaviour, Faults, Server, SimulatedCluster
from tests.objects import node, pod

pytestmark = pytest.mark.full

INSTANCE = Path(cli.__file__).resolve().parent / "instances" / "rebalance-drain.yaml"
FAULTS = Faults(error_before=0.05, error_after=0.05, lost_before=0.05, lost_after=0.1)


def invoke(*arguments: str) -> Result:
    result = CliRunner().invoke(cli.main, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


class Place:
    """A world, a document for it, and runs that carry it out."""

    def __init__(self, folder: Path, world: SimulatedCluster) -> None:
        self.folder, self.world = folder, world
        self.save("cluster.json")

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def save(self, name: str) -> None:
        (self.folder / name).write_text(json.dumps(self.world.snapshot()), encoding="utf-8")

    def decide(self, *arguments: str) -> None:
        result = invoke(*arguments, self.path("cluster.json"), "--deterministic", "-q", "-o", self.path("result.json"))
        assert result.exit_code in (0, 3), result.stderr

    def run(self, *, resume: bool = False, **options: Any) -> RunOutcome:
        with Server(self.world) as server:
            return asyncio.run(
                self._run(str(server.kubeconfig(self.folder / "config")), RunOptions(timeout=60, pause=0.01, **options), resume)
            )

    async def _run(self, kubeconfig: str, options: RunOptions, resume: bool) -> RunOutcome:
        result, digest = read_with_digest(self.path("result.json"))
        assert isinstance(result, Placement | RebalancePlan)
        before = snapshots.load([self.path("cluster.json")])
        origin = RunOrigin(digest, before.sha256, "https://stand-in", "uid")
        async with connect(kubeconfig) as api:
            cluster = LiveCluster(api)
            await cluster.start()
            try:
                async with Journal.open(journal_path(self.path("result.json")), origin, resume=resume) as journal:
                    execution = Execution(api, cluster, journal, result, before, judge_rest, options)
                    execution.fence.pauses = Pauses(settle=0.01, patience=0.05, again=0.01)
                    return await execution.run()
            finally:
                await cluster.close()

    def verify(self, *, end: bool = True) -> tuple[int, Any]:
        self.save("end.json")
        more = ("--end", self.path("end.json")) if end else ()
        result = self.path("result.json")
        found = invoke("verify", self.path("cluster.json"), "--result", result, "--journal", journal_path(result), *more)
        return found.exit_code, json.loads(found.stdout)


@pytest.mark.parametrize("faults", [Faults(), FAULTS])
def test_a_drain_is_carried_out_as_its_journal_says(tmp_path: Path, faults: Faults) -> None:
    world = SimulatedCluster(Behaviour(seed=3, faults=faults))
    world.load(thing for thing in yaml.safe_load_all(INSTANCE.read_text(encoding="utf-8")) if thing)
    place = Place(tmp_path, world)
    place.decide("rebalance", "--drain", "n1")
    outcome = place.run(wave=1)
    assert outcome.state in ("paused", "done"), outcome
    code, found = place.verify()
    assert (code, found["violations"]) == (3, [])
    assert 0 < found["journal"]["moves"]["done"] < 5
    outcome = place.run(resume=True)
    assert (outcome.state, outcome.remaining_steps) == ("done", []), outcome
    code, found = place.verify()
    assert (code, found["violations"]) == (0, [])
    told = found["journal"]
    assert (told["moves"], told["resumed"], told["end"]["missed"]) == ({"done": 5, "of": 5}, 1, [])
    assert world.budget_violations() == []


@pytest.mark.parametrize("faults", [Faults(), FAULTS])
def test_a_placement_is_bound_as_its_journal_says(tmp_path: Path, faults: Faults) -> None:
    world = SimulatedCluster(Behaviour(seed=5, scheduler="off", faults=faults))
    world.load([*(node(f"n{i}") for i in range(3)), *(pod(f"web-{i}", cpu="900m", owner="ReplicaSet/web") for i in range(8))])
    place = Place(tmp_path, world)
    place.decide("solve")
    assert place.run().state == "done"
    code, found = place.verify()
    assert (code, found["violations"]) == (0, [])
    assert found["journal"]["bindings"] == {"done": 8, "of": 8}


def test_another_hand_in_the_end_is_told(tmp_path: Path) -> None:
    world = SimulatedCluster(Behaviour(seed=7, scheduler="off"))
    world.load([*(node(f"n{i}") for i in range(2)), pod("a"), pod("b", node_name="n1", owner="ReplicaSet/b")])
    place = Place(tmp_path, world)
    place.decide("solve")
    assert place.run().state == "done"
    world.create(pod("late", node_name="n0"))
    code, found = place.verify()
    assert (code, found["violations"]) == (0, [])
    assert found["journal"]["end"]["foreign"] == ["Pod default/late is new on node n0"]
