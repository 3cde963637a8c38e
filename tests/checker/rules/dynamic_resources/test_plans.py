"""Plans and rollouts with devices: allocations of new pods, and devices that an eviction frees."""

from __future__ import annotations

from kubestow.checker.rollout import verify_rollout
from kubestow.models.documents.placement import Assignment, DeviceResult, Placement, Rollout, RolloutPod, SnapshotRef, TierResult, Wave
from kubestow.models.documents.rebalance_plan import Move
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.rollout_input import read
from tests.checker.plan.plans import faults, move, plan, tier
from tests.checker.rules.dynamic_resources.claims import (
    allocated,
    claim,
    device,
    device_class,
    made,
    named,
    request,
    result,
    slice_of,
    wants,
    world,
)
from tests.objects import Object, node
from tests.solver.rollout.rollouts import deployment, old, replica_set, rolling

PAIR = slice_of("s", [device("d0"), device("d1")])
OTHER = slice_of("t", [device("d9")], nodeName="n2")
BACKED = device_class("gpu", extendedResourceName="example.com/gpu")


def admitted(snapshot: Snapshot, *steps: Move) -> list[str]:
    """Return the checker's faults of a plan that binds these pods, as far as devices go."""
    return [why for rule, why in faults(*plan(snapshot, ["admit"], [tier("placed", len(steps), 0)], *steps)) if rule == "DynamicResources"]


def _waiting(*names: str) -> list[Object]:
    return [each for name in names for each in (wants(name, f"c-{name}"), claim(f"c-{name}", request()))]


def test_pods_that_a_plan_binds_get_devices_one_after_the_other() -> None:
    snapshot = world(PAIR, OTHER, *_waiting("p", "q", "r"))
    one, two, three = (move(i, i, name, None, "n1") for i, name in enumerate("pqr", 1))
    assert admitted(snapshot, one, two) == []
    assert admitted(snapshot, one, two, three) == ["step 3 (wave 3): no devices of the node serve default/c-r"]
    assert admitted(snapshot, one, two, move(3, 3, "r", None, "n2")) == []


def test_pods_of_one_wave_must_not_draw_on_the_same_devices() -> None:
    snapshot = world(PAIR, OTHER, *_waiting("p", "q"))
    assert admitted(snapshot, move(1, 1, "p", None, "n1"), move(2, 1, "q", None, "n2")) == []
    assert admitted(snapshot, move(1, 1, "p", None, "n1"), move(2, 1, "q", None, "n1")) == [
        "step 2 (wave 1): default/p takes devices in the same wave: the allocation depends on their order"
    ]
    shared = world(slice_of("s", [device("d0")], allNodes=True), wants("p", "c"), wants("q", "c"), claim("c", request()))
    assert len(admitted(shared, move(1, 1, "p", None, "n1"), move(2, 1, "q", None, "n2"))) == 1
    assert admitted(shared, move(1, 1, "p", None, "n1"), move(2, 2, "q", None, "n2")) == []


def test_a_pod_that_holds_devices_is_not_moved() -> None:
    held = made("m", "p", request(), status=allocated(result("d0")))
    snapshot = world(PAIR, OTHER, wants("p", "=m", node_name="n1", owner="ReplicaSet/p"), held)
    told = faults(*plan(snapshot, ["drain"], [], move(1, 1, "p", "n1", "n2"), drain=["n1"]))
    assert ("RebalancePlan", "step 1 (wave 1): the pod must not be moved (devices)") in told


def test_a_pod_may_move_to_where_devices_provide_what_it_asks_for() -> None:
    plugin = node("n3")
    plugin["status"]["allocatable"]["example.com/gpu"] = "1"
    runs = wants("p", node_name="n3", owner="ReplicaSet/p", resources={"example.com/gpu": "1"})
    snapshot = world(node("n1"), node("n2"), plugin, PAIR, BACKED, runs)
    for there, rejected in (("n1", False), ("n2", True)):
        told = faults(*plan(snapshot, ["drain"], [], move(1, 1, "p", "n3", there), drain=["n3"]))
        assert [rule for rule, _ in told if rule in ("DynamicResources", "NodeResourcesFit")] == ["DynamicResources"] * rejected


def test_a_pod_that_devices_serve_breaks_no_rule_where_it_runs() -> None:
    left = made("x", "p", request(), status=allocated(result("d0")), annotations={"resource.kubernetes.io/extended-resource-claim": "true"})
    runs = wants("p", node_name="n1", owner="ReplicaSet/p", resources={"example.com/gpu": "1"})
    _, document = plan(world(PAIR, BACKED, left, runs), ["repair"], [])
    assert document.before.rules == {}


# --- rollouts -----------------------------------------------------------------------------------------------------------


def _rolled(*devices: str) -> list[str]:
    """Return the faults of a rollout that replaces two pods one by one and gives the new pods these devices."""
    asks = {"resources": {"requests": {"cpu": "100m", "memory": "1Mi", "example.com/gpu": "1"}}}
    template = deployment(2, strategy=rolling(1, 0))
    template["spec"]["template"]["spec"]["containers"][0] |= asks
    olds = [old(i, "n1") for i in range(2)]
    claims = []
    for i, pod in enumerate(olds):
        pod["spec"]["containers"][0] |= asks
        pod["metadata"]["uid"] = f"uid-{pod['metadata']['name']}"
        notes = {"resource.kubernetes.io/extended-resource-claim": "true"}
        claims.append(made(f"x{i}", pod["metadata"]["name"], request(), status=allocated(result(f"d{i}")), annotations=notes))
    three = slice_of("s", [device(f"d{i}") for i in range(3)])
    snapshot = world(node("n1"), three, BACKED, template, replica_set(), *olds, *claims)
    revision = read(snapshot, "web", None)
    new = [f"default/{pod.metadata.name}" for pod in revision.new]

    def gets(i: int) -> list[DeviceResult]:
        return [named(f"{new[i]}/extended-resources", devices[i], "container-0-request-1")]

    waves = [
        Wave(i + 1, [RolloutPod(new[i], "n1", i + 1, gets(i))], [], [f"default/{olds[i]['metadata']['name']}"]) for i in range(2)
    ]  # fmt: skip
    rollout = Rollout("Deployment default/web", "RollingUpdate", 2, 1, 0, True, False, waves)
    reference = SnapshotRef(snapshot.sha256, 1, len(snapshot.pods), 2, rollout="web")
    assignments = [Assignment(new[i], "n1", i + 1, devices=gets(i)) for i in range(2)]
    document = Placement(reference, "exact", "optimal", [TierResult("placed", 2, 2, 0)], assignments, rollout=rollout)
    return [each.why for each in verify_rollout(snapshot, document) if each.rule in ("DynamicResources", "NodeResourcesFit")]


def test_devices_of_old_pods_come_free_in_a_rollout() -> None:
    assert _rolled("d2", "d0") == []
    assert "the allocator takes gpu.example.com/s/d2" in _rolled("d0", "d2")[0]
    assert len(_rolled("d2", "d1")) == 1
