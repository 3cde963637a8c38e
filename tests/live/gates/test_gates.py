"""Held pods get the nodes of their placement, gangs whole or not at all."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kubestow.live.gates.gates import Gates, ReleaseOptions, ReleaseOutcome
from kubestow.models.documents.journal import Fact, read
from kubestow.models.execution.template_nodes import GATE
from tests.api_server import Behaviour
from tests.live.gates.stage import Stage, workload
from tests.objects import Object, node, pod

NODES = [node("n1", cpu="4"), node("n2", cpu="4"), node("n3", cpu="4")]


def go(stage: Stage, folder: Path) -> ReleaseOutcome:
    found: ReleaseOutcome = stage.run(folder, lambda gates: gates.run())
    told = stage.judged(folder).summary
    assert told is not None
    if found.state == "done":
        assert told.left == []
        assert told.end is not None
        assert told.end.missed == []
    return found


def test_a_gang_is_placed_by_the_scheduler_on_its_nodes(tmp_path: Path) -> None:
    stage = Stage(NODES, [workload("Deployment", replicas=3)], ["n3", "n3", "n2"])
    stage.apply()
    assert stage.counts("web") == {"": 3}
    outcome = go(stage, tmp_path)
    assert (outcome.state, outcome.deviations) == ("done", [])
    assert stage.counts("web") == {"n2": 1, "n3": 2}
    assert sorted(outcome.placed.values()) == ["n2", "n3", "n3"]
    assert stage.told.nodes == outcome.placed
    assert {entry.actor for entry in stage.world.log if entry.verb == "bind"} == {"scheduler"}


def test_pods_that_come_late_are_waited_for(tmp_path: Path) -> None:
    stage = Stage(NODES, [workload("Deployment", replicas=2), workload("Job", "batch", parallelism=2)], ["n1", "n2", "n3", "n3"])

    async def late(gates: Gates) -> ReleaseOutcome:
        task = asyncio.create_task(gates.run())
        await asyncio.sleep(0.05)
        assert not task.done()
        stage.apply()
        return await task

    assert stage.run(tmp_path, late).state == "done"
    assert (stage.counts("web"), stage.counts("batch")) == ({"n1": 1, "n2": 1}, {"n3": 2})


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


def foreign(cpu: str, node_name: str, name: str = "foreign") -> Object:
    return pod(name, cpu=cpu, node_name=node_name)


def test_a_gang_that_does_not_fit_any_more_is_left_whole_behind_the_gate(tmp_path: Path) -> None:
    stage = Stage(NODES, [workload("Deployment", replicas=3)], ["n1", "n2", "n3"], options=ReleaseOptions(0.3, pause=0.01))
    stage.apply()
    stage.world.load([foreign("3500m", "n2")])
    outcome = go(stage, tmp_path)
    assert outcome.state == "stopped"
    assert stage.counts("web") == {"": 3}
    assert len(stage.held()) == 3
    assert stage.world.requests == 0
    assert outcome.deviations[0] == "Deployment default/web: 0 of 3 pods are bound, 3 behind the gate"
    assert "n2" in outcome.deviations[1]
    assert "NodeResourcesFit" in outcome.deviations[1]


def test_a_gang_waits_until_it_fits(tmp_path: Path) -> None:
    stage = Stage(NODES, [workload("Deployment", replicas=2)], ["n1", "n2"])
    stage.apply()
    stage.world.load([foreign("3500m", "n2")])

    async def room(gates: Gates) -> ReleaseOutcome:
        task = asyncio.create_task(gates.run())
        await asyncio.sleep(0.1)
        assert len(stage.held()) == 2
        stage.world.delete("Pod", "default/foreign", grace=0)
        return await task

    assert stage.run(tmp_path, room).state == "done"
    assert stage.counts("web") == {"n1": 1, "n2": 1}


def test_a_gang_of_which_pods_lack_is_not_let_go_and_is_told(tmp_path: Path) -> None:
    stage = Stage(NODES, [workload("Job", "w", parallelism=3)], ["n1", "n2", "n3"], options=ReleaseOptions(0.3, pause=0.01))
    stage.behaviour = Behaviour(controllers=False)
    stage.__post_init__()
    stage.apply()
    job = stage.world.get("Job", "default/w")
    assert job is not None
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "w", "uid": job["metadata"]["uid"], "controller": True}
    for i in range(2):
        metadata = {"name": f"w-{i}", "namespace": "default", "labels": {"app": "w"}, "ownerReferences": [owner]}
        stage.world.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": job["spec"]["template"]["spec"]})
    outcome = go(stage, tmp_path)
    assert outcome.deviations == [
        "Job default/w: 0 of 3 pods are bound, 2 behind the gate",
        "gang default/w is not all there: Job default/w 2 of 3",
    ]
    assert stage.world.requests == 0


def undoing(folder: Path, **more: Any) -> tuple[Stage, ReleaseOutcome]:
    there = workload("ReplicationController", "old", replicas=1)
    stage = Stage(
        [*NODES, there],
        [workload("Deployment", replicas=2), workload("Deployment", "fits", replicas=1), there],
        ["n2", "n2", "n1", "n3"],
        options=ReleaseOptions(0.3, pause=0.01, **more),
    )
    stage.apply()
    stage.world.load([foreign("3500m", "n2")])
    return stage, go(stage, folder)


def test_nothing_is_deleted_unless_that_is_asked_for(tmp_path: Path) -> None:
    stage, outcome = undoing(tmp_path)
    assert (outcome.state, outcome.undone) == ("stopped", [])
    assert len(stage.world.all("Deployment")) == 2


def test_undo_deletes_what_is_not_whole_and_was_not_there_before(tmp_path: Path) -> None:
    stage, outcome = undoing(tmp_path, undo=True)
    assert outcome.undone == ["Deployment default/web"]
    assert "deleting Deployment default/web with its pods" in stage.told.notes
    assert [each["metadata"]["name"] for each in stage.world.all("Deployment")] == ["fits"]
    assert stage.world.get("ReplicationController", "default/old") is not None
    assert stage.counts("fits") == {"n1": 1}


def partner(of: str) -> Object:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": of}}}
    return {"podAffinity": {REQUIRED: [term]}}


def test_pods_that_need_each_other_are_bound_together(tmp_path: Path) -> None:
    pair = [workload("Deployment", "a", affinity=partner("b"), replicas=1), workload("Deployment", "b", affinity=partner("a"), replicas=1)]
    for each in pair:
        each["spec"]["template"]["metadata"]["annotations"] = {"kubestow.dev/gang": "pair"}
    stage = Stage(NODES, pair, ["n2", "n2"], orders=[1, 1])
    stage.apply()
    assert go(stage, tmp_path).state == "done"
    assert (stage.counts("a"), stage.counts("b")) == ({"n2": 1}, {"n2": 1})


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_ordinals_get_their_own_nodes(tmp_path: Path, policy: str) -> None:
    stage = Stage(NODES, [workload("StatefulSet", "db", replicas=3, serviceName="db", podManagementPolicy=policy)], ["n3", "n1", "n2"])
    stage.apply()
    assert len(stage.held()) == (1 if policy == "OrderedReady" else 3)
    assert go(stage, tmp_path).state == "done"
    assert stage.pods("db") == {"db-0": "n3", "db-1": "n1", "db-2": "n2"}


def test_a_pod_by_itself_is_let_go(tmp_path: Path) -> None:
    bare = pod("p", schedulingGates=[{"name": GATE}])
    stage = Stage(NODES, [bare], ["n2"])
    stage.apply()
    assert go(stage, tmp_path).state == "done"
    assert stage.pods() == {"p": "n2"}


def test_other_gates_stay(tmp_path: Path) -> None:
    bare = pod("p", schedulingGates=[{"name": "other.example/gate"}, {"name": GATE}])
    stage = Stage(NODES, [bare], ["n2"], options=ReleaseOptions(0.3, pause=0.01))
    stage.apply()
    outcome = go(stage, tmp_path)
    assert outcome.deviations[0] == "Pod default/p: 0 of 1 pods are bound, 0 behind the gate; let go, but not bound: default/p waits for n2"
    found = stage.world.get("Pod", "default/p")
    assert found is not None
    assert found["spec"]["schedulingGates"] == [{"name": "other.example/gate"}]


def test_a_pod_that_changes_meanwhile_is_read_again(tmp_path: Path) -> None:
    stage = Stage(NODES, [pod("p", schedulingGates=[{"name": GATE}])], ["n2"])
    stage.apply()
    stage.world.on_request(1, lambda: stage.world.patch("Pod", "default/p", {"metadata": {"labels": {"seen": "yes"}}}) and None)
    assert go(stage, tmp_path).state == "done"
    assert stage.pods() == {"p": "n2"}
    assert stage.world.requests == 2


def test_nodes_that_a_run_keeps_closed_are_waited_for(tmp_path: Path) -> None:
    closed = node("n2")
    closed["metadata"]["annotations"] = {"kubestow.dev/closed-by": "abc 2026-11-22T12:00:00Z"}
    closed["spec"]["unschedulable"] = True
    stage = Stage([node("n1"), closed], [pod("p", schedulingGates=[{"name": GATE}])], ["n2"])
    stage.apply()

    async def opened(gates: Gates) -> ReleaseOutcome:
        task = asyncio.create_task(gates.run())
        await asyncio.sleep(0.1)
        assert stage.held() == ["p"]
        change = {"metadata": {"annotations": {"kubestow.dev/closed-by": None}}, "spec": {"unschedulable": None, "taints": None}}
        stage.world.patch("Node", "n2", change)
        return await task

    assert stage.run(tmp_path, opened).state == "done"


def test_volumes_are_bound_by_the_scheduler_on_the_planned_node(tmp_path: Path) -> None:
    storage = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"}, "provisioner": "csi.example.com"}
    claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "late", "resources": {"requests": {"storage": "1Gi"}}}
    db = workload("StatefulSet", "db", replicas=2, serviceName="db", podManagementPolicy="Parallel")
    db["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
    stage = Stage([*NODES, {**storage, "volumeBindingMode": "WaitForFirstConsumer"}], [db], ["n3", "n1"])
    stage.apply()
    assert go(stage, tmp_path).state == "done"
    assert stage.pods("db") == {"db-0": "n3", "db-1": "n1"}
    assert [each["status"]["phase"] for each in stage.world.all("PersistentVolumeClaim")] == ["Bound", "Bound"]


def test_pods_with_devices_are_let_go_one_after_the_other_in_bind_order(tmp_path: Path) -> None:
    """Each pod goes when the one before is bound: its choice depends on the scheduler's choice for that one."""
    train, tune = workload("Deployment", "train", replicas=3), workload("Deployment", "tune", replicas=1)
    for each in (train, tune):
        each["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    template = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "one", "namespace": "default"}}
    slow = Behaviour(scheduler="slow", scheduling=0.05)
    nodes = ["n3", "n1", "n2", "n1"]
    stage = Stage([*NODES, {**template, "spec": {"spec": {"devices": {}}}}], [train, tune], nodes, behaviour=slow)
    stage.apply()
    assert go(stage, tmp_path).state == "done"
    told = [(entry.verb, entry.key.partition("/")[2]) for entry in stage.world.log if entry.verb in ("patch", "bind")]
    assert [verb for verb, _ in told] == ["patch", "bind"] * 4
    assert [stage.pods()[name] for verb, name in told if verb == "bind"] == nodes


def test_a_rollout_of_what_runs_goes_pod_by_pod(tmp_path: Path) -> None:
    before = workload("Deployment", replicas=3)
    del before["spec"]["template"]["spec"]["schedulingGates"]
    stage = Stage(NODES, [], [])
    stage.world.create(before)
    stage.world.settle()
    old = stage.pods("web")
    stage = Stage(stage.world.items(), [workload("Deployment", replicas=3)], [], behaviour=Behaviour(seed=1))
    stage.world.patch("Deployment", "default/web", {"spec": {"template": {"spec": {"schedulingGates": [{"name": GATE}]}}}})
    assert stage.templates[0].nodes == {"n1": 1, "n2": 1, "n3": 1}
    assert go(stage, tmp_path).state == "done"
    assert stage.counts("web") == {"n1": 1, "n2": 1, "n3": 1}
    assert not set(old) & set(stage.pods("web"))


def test_what_is_to_end_begins_nothing_more(tmp_path: Path) -> None:
    stage = Stage(NODES, [workload("Deployment", replicas=2)], ["n1", "n2"])

    async def ended(gates: Gates) -> ReleaseOutcome:
        task = asyncio.create_task(gates.run())
        await asyncio.sleep(0.05)
        gates.ending.set()
        stage.apply()
        return await task

    outcome = stage.run(tmp_path, ended)
    assert (outcome.state, outcome.placed, stage.counts("web")) == ("interrupted", {}, {"": 2})


def test_a_resumed_run_gives_a_successor_the_place_of_the_pod_that_is_gone(tmp_path: Path) -> None:
    stage = Stage(NODES, [workload("Deployment", replicas=3)], ["n3", "n3", "n2"])
    stage.apply()
    assert go(stage, tmp_path).state == "done"
    gone = next(name for name, where in stage.pods("web").items() if where == "n2")
    stage.world.delete("Pod", f"default/{gone}", grace=0)
    assert go(stage, tmp_path).state == "done"
    assert stage.counts("web") == {"n2": 1, "n3": 2}
    told = stage.judged(tmp_path).summary
    assert told is not None
    assert (told.resumed, told.bindings.done) == (1, 3)
    facts = [line for line in read(str(tmp_path / "p.journal.jsonl")).lines if isinstance(line, Fact)]
    assert [(fact.what, fact.pod) for fact in facts].count(("gone", next(f.pod for f in facts if f.now == f"default/{gone}"))) == 1
