"""Held pods get the nodes of their placement, gangs whole or not at all."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from live.gates.gates import Gates, Options, Outcome
from tests.live.gates.stage import Stage, workload
from tests.objects import node

NODES = [node("n1", cpu="4"), node("n2", cpu="4"), node("n3", cpu="4")]


def go(stage: Stage, folder: Path) -> Outcome:
    found: Outcome = stage.run(folder, lambda gates: gates.run())
    return found


def test_a_gang_is_placed_by_the_scheduler_on_its_nodes(tmp_path: Path) -> None:
    stage = Stage(NODES, [workload("Deployment", replicas=3)], ["n3", "n3", "n2"])
    stage.apply()
    assert stage.counts("web") == {"": 3}
    outcome = go(stage, tmp_path)
    assert (outcome.state, outcome.left) == ("done", [])
    assert stage.counts("web") == {"n2": 1, "n3": 2}
    assert sorted(outcome.placed.values()) == ["n2", "n3", "n3"]
    assert stage.told.nodes == outcome.placed
    assert {entry.actor for entry in stage.world.log if entry.verb == "bind"} == {"scheduler"}


def test_pods_that_come_late_are_waited_for(tmp_path: Path) -> None:
    stage = Stage(NODES, [workload("Deployment", replicas=2), workload("Job", "batch", parallelism=2)], ["n1", "n2", "n3", "n3"])

    async def late(gates: Gates) -> Outcome:
        task = asyncio.create_task(gates.run())
        await asyncio.sleep(0.05)
        assert not task.done()
        stage.apply()
        return await task

    assert stage.run(tmp_path, late).state == "done"
    assert (stage.counts("web"), stage.counts("batch")) == ({"n1": 1, "n2": 1}, {"n3": 2})


def test_a_gang_of_which_pods_lack_is_not_let_go(tmp_path: Path) -> None:
    stage = Stage(NODES, [workload("ReplicationController", replicas=3)], ["n1", "n2", "n3"], options=Options(0.3, pause=0.01))
    stage.world.create({**workload("Job", "other", parallelism=0)}, "kubectl")
    controller = stage.world.create({**workload("ReplicationController", replicas=3), "metadata": {"name": "web", "namespace": "default"}})
    stage.world.patch("ReplicationController", "default/web", {"spec": {"template": {"spec": {"nodeSelector": None}}}})
    assert controller["spec"]["replicas"] == 3
    assert len(stage.held()) == 3


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize("terms", [1, 2])
def test_every_required_term_gets_the_node(tmp_path: Path, terms: int) -> None:
    given = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}] * terms
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": given}}}
    stage = Stage(NODES, [workload("Deployment", affinity=affinity, replicas=2)], ["n2", "n2"])
    stage.apply()
    assert go(stage, tmp_path).state == "done"
    assert stage.counts("web") == {"n2": 2}
    for each in stage.world.all("Pod"):
        found = each["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
        assert [term["matchFields"][0]["values"] for term in found] == [["n2"]] * terms
        assert [term["matchExpressions"] for term in found] == [term["matchExpressions"] for term in given]
