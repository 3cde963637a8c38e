"""Pods that go through the scheduler: how long they are waited for, and how runs end meanwhile."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from kubestow.commands.apply.remaining_steps import judge_rest
from kubestow.live.api.answers import Object
from kubestow.live.apply.run import RunOptions
from kubestow.models.documents.placement import Assignment, Placement, SnapshotRef
from kubestow.models.kube.closed_nodes import LET_IN
from tests.live.apply.fake_cluster import nodes
from tests.live.apply.small_cluster import SmallCluster, plan, running, waiting
from tests.live.apply.test_run import Run, claim, sent

LATE: Object = {
    "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"}, "provisioner": "p",
    "volumeBindingMode": "WaitForFirstConsumer",
}  # fmt: skip
LONG = RunOptions(timeout=60, pause=0.01)


def world_of(*names: str, storage: str = "late") -> SmallCluster:
    """Return a cluster without a scheduler in which these pods wait for claims that have no volume."""
    claims = [claim(f"data-{name}", storageClassName=storage) for name in names]
    pods = [waiting(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": f"data-{name}"}}]) for name in names]
    world = SmallCluster(*nodes("n1", "n2"), LATE, *claims, *pods)
    world.scheduler = False
    return world


def placed(*names: str, gang: str | None = None) -> Placement:
    return Placement(SnapshotRef("", 0, 0, 0), "greedy", "feasible", [], [Assignment(f"default/{name}", "n1", 1, gang) for name in names])


def let_in(world: SmallCluster) -> list[str]:
    """Return the pods for which a node was opened, by uid."""
    found = []
    for _, path, body in world.sent:
        taints = (((body or {}).get("spec") or {}).get("taints") or ()) if "/nodes/" in path else ()
        found += [taint["value"] for taint in taints if taint["key"] == LET_IN]
    return found


def interrupting(run: Run, last: str) -> None:
    """Interrupt a run as soon as a request with this path is sent for the second time; the first time is the fence's."""
    seen: list[str] = []

    def interrupt(method: str, path: str) -> None:
        seen.extend([path] * path.endswith(last))
        if len(seen) == 2 and run.execution is not None:
            run.execution.interrupt()

    run.world.on_request = interrupt


def test_an_interrupt_ends_the_wait_for_the_scheduler_and_lets_no_other_pod_in(tmp_path: Path) -> None:
    world = world_of("a", "b")
    run = Run(world, placed("a", "b"), tmp_path)
    interrupting(run, "/nodes/n1")
    outcome = run(LONG)
    assert (outcome.state, outcome.reasons, len(outcome.remaining_steps)) == ("interrupted", ["interrupted"], 2)
    assert let_in(world) == ["uid-a"]

    def all_closed(method: str, path: str) -> None:
        world.scheduler = all(node["spec"].get("unschedulable") for node in world.objects("Node").values())

    world.on_request = all_closed
    assert (again := run()).state == "done", again.message
    assert world.bound_by_scheduler == [("a", "n1"), ("b", "n1")]


def test_a_pod_that_the_scheduler_binds_after_the_run_was_killed_is_where_it_should_be(tmp_path: Path) -> None:
    world = world_of("a", "b")
    run = Run(world, placed("a", "b"), tmp_path, judge_rest)
    interrupting(run, "/nodes/n1")
    assert run(LONG).state == "interrupted"
    world.bind("a", "n1")

    def all_closed(method: str, path: str) -> None:
        world.scheduler = all(node["spec"].get("unschedulable") for node in world.objects("Node").values())

    world.on_request = all_closed
    outcome = run()
    assert (outcome.state, outcome.reasons) == ("done", [])


def test_a_pod_that_others_bound_to_its_node_ends_a_resumed_run(tmp_path: Path) -> None:
    world = world_of("a", "b")
    run = Run(world, placed("a", "b"), tmp_path, judge_rest)
    interrupting(run, "/nodes/n1")
    assert run(LONG).state == "interrupted"
    world.bind("b", "n1")
    outcome = run()
    assert (outcome.state, outcome.reasons) == ("stopped", ["Pod default/b of a coming step is on node n1, it should be without a node"])


def test_an_interrupt_ends_the_wait_for_a_volume(tmp_path: Path) -> None:
    world = world_of("a", storage="")
    run = Run(world, placed("a"), tmp_path)
    world.on_request = lambda method, path: run.execution.interrupt() if "/nodes/" in path and run.execution is not None else None
    assert run(LONG).state == "interrupted"


def test_an_interrupt_in_the_middle_of_the_wait_for_a_volume_ends_it(tmp_path: Path) -> None:
    world = world_of("a", storage="")
    run = Run(world, placed("a"), tmp_path)

    def named(kind: str, name: str, namespace: str | None = None) -> Object | None:
        if kind == "StorageClass" and run.execution is not None:
            run.execution.interrupt()
        return world.items.get((kind, name))

    world.named = named  # type: ignore[method-assign]
    outcome = run(LONG)
    assert (outcome.state, outcome.reasons, len(outcome.remaining_steps)) == ("interrupted", ["interrupted"], 1)


def test_a_pod_bound_while_it_is_given_up_counts(tmp_path: Path) -> None:
    world = world_of("a")
    run = Run(world, placed("a"), tmp_path)
    interrupting(run, "/nodes/n1")
    refresh = world.refresh

    async def bound() -> None:
        await refresh()
        if let_in(world):
            world.bind("a", "n1")

    world.refresh = bound  # type: ignore[method-assign]
    outcome = run(LONG)
    assert (outcome.state, [step.pod for step in outcome.done]) == ("interrupted", ["default/a"])


def test_no_pod_is_let_in_after_one_was_in_vain(tmp_path: Path) -> None:
    world = world_of("a", "b", "c")
    outcome = Run(world, placed("a", "b", "c"), tmp_path)(RunOptions(timeout=0.05, pause=0.01))
    assert outcome.state == "stopped"
    assert outcome.reasons == ["the scheduler has not put pod default/a on n1 within 0.05 s"]
    assert let_in(world) == ["uid-a"]


def test_no_replacement_is_let_in_after_another_was_in_vain(tmp_path: Path) -> None:
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]
    pods = [running(f"{name}-0", "n2", f"StatefulSet/{name}", volumes=volumes) for name in "ab"]
    world = SmallCluster(*nodes("n1", "n2"), LATE, *pods)
    world.scheduler = False
    outcome = Run(world, plan((1, "a-0", "n2", "n1"), (1, "b-0", "n2", "n1")), tmp_path)(RunOptions(timeout=0.1, pause=0.01))
    assert sorted(sent(world, "eviction")) == ["a-0", "b-0"]
    assert len(let_in(world)) == 1
    assert outcome.state == "stopped"
    assert "pod default/b-0 is not let in to n1, because pod default/a-0 was let in without success" in outcome.reasons


def says(world: SmallCluster, message: str) -> None:
    """Have the scheduler find no place for pod a."""
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    world.edit("Pod", "a", {"status": {"phase": "Pending", "conditions": [said]}})


def test_a_pod_that_has_no_place_on_the_open_node_is_given_up(tmp_path: Path) -> None:
    world = world_of("a")
    says(world, "0/2 nodes are available: 2 node(s) were unschedulable.")
    run = Run(world, placed("a"), tmp_path)
    message = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."
    world.after_request = lambda: says(world, message) if let_in(world) == ["uid-a"] else None
    outcome = run(RunOptions(timeout=60, pause=0.01, patience=0.05))
    assert outcome.state == "stopped"
    (reason,) = outcome.reasons
    assert re.fullmatch(rf"the scheduler has not put pod default/a on n1 within \d+(?:\.\d)? s: {re.escape(message)}", reason)


def test_a_pod_that_has_a_place_at_the_second_look_is_not_given_up(tmp_path: Path) -> None:
    world = world_of("a")

    def schedule() -> None:
        if let_in(world) == ["uid-a"] and world.at("a") is None:
            world.after_request = lambda: None
            says(world, "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.")
            asyncio.get_running_loop().call_later(0.05, world.bind, "a", "n1")

    world.after_request = schedule
    assert Run(world, placed("a"), tmp_path)(RunOptions(timeout=60, pause=0.01, patience=60)).state == "done"


def test_a_verdict_from_before_the_node_was_opened_is_none(tmp_path: Path) -> None:
    world = world_of("a")
    says(world, "0/2 nodes are available: 2 node(s) were unschedulable.")
    outcome = Run(world, placed("a"), tmp_path)(RunOptions(timeout=0.3, pause=0.01, patience=0.01))
    assert "within 0.3 s" in outcome.reasons[0]


def test_a_pod_whose_volume_is_being_made_is_not_given_up(tmp_path: Path) -> None:
    world = world_of("a")

    def choose() -> None:
        if let_in(world) == ["uid-a"] and world.at("a") is None:
            world.after_request = lambda: None
            says(world, "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.")
            world.edit("PersistentVolumeClaim", "data-a", {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}})
            asyncio.get_running_loop().call_later(0.2, world.bind, "a", "n1")

    world.after_request = choose
    assert Run(world, placed("a"), tmp_path)(RunOptions(timeout=60, pause=0.01, patience=0.02)).state == "done"


def test_pods_with_devices_are_let_in_one_by_one_in_their_order_and_never_bound_by_hand(tmp_path: Path) -> None:
    """The devices that one gets depend on those that others took."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    extended = [{"name": "c", "image": "i", "resources": {"requests": {"a.b/gpu": "1"}, "limits": {"a.b/gpu": "1"}}}]
    cls = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"extendedResourceName": "a.b/gpu"},
    }
    pods = [waiting(name, resourceClaims=claims) for name in "abcd"]
    world = SmallCluster(*nodes("n1", "n2"), cls, *pods, waiting("e", containers=extended), waiting("plain"))
    world.scheduler = False
    ordered = ["d", "plain", "b", "e", "a", "c"]
    assignments = [Assignment(f"default/{name}", "n1", order) for order, name in enumerate(ordered, 1)]

    def scheduling() -> None:
        """Bind the pod for which the node is open, a moment later for each of them: who came first came first."""
        for uid in let_in(world)[-1:]:
            name = uid.removeprefix("uid-")
            if world.at(name) is None:
                world.bound_by_scheduler.append((name, "n1"))
                world.bind(name, "n1")

    world.after_request = scheduling
    outcome = Run(world, Placement(SnapshotRef("", 0, 0, 0), "greedy", "feasible", [], assignments), tmp_path)(LONG)
    assert outcome.state == "done", outcome.message
    assert [name for name, _ in world.bound_by_scheduler] == ["d", "b", "e", "a", "c"]
    assert [path.split("/")[-2] for _, path, _ in world.sent if path.endswith("/binding")] == ["plain"]
