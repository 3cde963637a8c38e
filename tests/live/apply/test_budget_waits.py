"""Budgets that wait for a pod which others deleted, and which has no node as all are closed: runs open nodes for it, and go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubestow.checker.plan.plan import summary
from kubestow.live.apply.run import RunOptions, RunOutcome
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.kube.closed_nodes import CLOSED_BY
from kubestow.models.snapshot.snapshot import from_objects
from tests.api_server import Behaviour, Scheduler, Server, SimulatedCluster
from tests.live.apply.applying import Applying
from tests.live.apply.drift_cluster import budget, move, plan, replica_set, running
from tests.objects import node

SHORT = RunOptions(timeout=60.0, pause=0.01, hold=0.03)


@dataclass
class Drain:
    """Three nodes, the first of which is drained of two pods; their budget allows two of four to be missing."""

    path: Path
    scheduler: Scheduler = "at once"

    def __post_init__(self) -> None:
        self.world = SimulatedCluster(Behaviour(scheduler=self.scheduler, ready=0.002))
        on = {"web-1": "n1", "web-2": "n1", "web-3": "n2", "web-4": "n3"}
        pods: list[dict[str, Any]] = [running(name, where, "ReplicaSet/web") for name, where in on.items()]
        things = [node("n1"), node("n2"), node("n3"), *pods, replica_set("web", 4)]
        self.world.load([*things, budget("web", 2, maxUnavailable=2)], templates_of_pods=True)
        self.world.settle()
        self.snapshot = from_objects(self.world.items())
        steps = plan(move("web-1", "n1", "n2"), move("web-2", "n1", "n3", step=2))
        self.document: RebalancePlan = msgspec.structs.replace(steps, drain=["n1"])
        self.document.before, self.document.after, _ = summary(self.snapshot, self.document)

    def lose(self, when: Callable[[SimulatedCluster], object], *names: str) -> None:
        """Let somebody delete pods."""

        def delete() -> None:
            for name in names:
                self.world.delete("Pod", f"default/{name}", grace=0)

        self.world.when(lambda world: bool(when(world)), delete)

    def __call__(self, options: RunOptions = SHORT) -> RunOutcome:
        with Server(self.world) as server:
            outcome = Applying(server, self.document, self.snapshot, self.path, options)()
        assert [one for one in self.world.budget_violations() if one.entry.actor == "client"] == []
        assert outcome.not_opened == []
        assert not any(CLOSED_BY in (one["metadata"].get("annotations") or {}) for one in self.world.all("Node"))
        return outcome

    def by_scheduler(self) -> list[str]:
        """Return the nodes that the scheduler gave to pods before the run was over."""
        last = max(entry.time for entry in self.world.bound("client"))
        return [entry.node for entry in self.world.bound("scheduler") if entry.time < last]


MOMENTS: dict[str, Callable[[SimulatedCluster], object]] = {
    "in a wave": lambda world: world.evicted(),
    "before the first step": lambda world: len(world.cordoned()) == 3,
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_pod_that_a_budget_waits_for_gets_a_node_and_the_wave_goes_on(moment: str, tmp_path: Path) -> None:
    drain = Drain(tmp_path)
    drain.lose(MOMENTS[moment], "web-3", "web-4")
    outcome = drain()
    assert (outcome.state, outcome.reasons) == ("done", []), outcome
    foreign = drain.by_scheduler()
    assert len(foreign) == 2
    assert sorted(drain.world.where().values()) == sorted([*foreign, "n2", "n3"])
    assert "n1" not in foreign
    assert drain.world.cordoned() == ["n1"]


@pytest.mark.full
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_pod_that_gets_no_node_is_named_when_time_is_up(moment: str, tmp_path: Path) -> None:
    drain = Drain(tmp_path, "off")
    drain.lose(MOMENTS[moment], "web-3", "web-4")
    outcome = drain(RunOptions(timeout=3.0, pause=0.01, hold=0.03))
    assert outcome.state == "stopped"
    waiting = [one["metadata"]["name"] for one in drain.world.all("Pod") if not one["spec"].get("nodeName")]
    named = outcome.message.partition("the budget waits for pods ")[2].partition(" without a node")[0].split(", ")
    assert len(named) == 2, outcome
    assert {name.removeprefix("default/") for name in named} <= set(waiting)
    assert {entry.key for entry in drain.world.evicted() if entry.actor == "client"} <= {"default/web-1", "default/web-2"}
