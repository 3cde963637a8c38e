"""PodDisruptionBudgets and exclusions, as the checker of plans reads them."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.checker.plan.disruption_budgets import Guards
from kubestow.models.documents.rebalance_plan import Excluded, Limits
from kubestow.models.snapshot.snapshot import from_objects
from tests.checker.plan.plans import budget, evict, faults, move, plan, rules, running, tier
from tests.objects import node

Object = dict[str, Any]
UNREADY = [{"type": "Ready", "status": "False"}]


def _replica_set(replicas: int, *, owner: str | None = None) -> Object:
    metadata: Object = {"name": "a", "namespace": "default"}
    if owner is not None:
        metadata["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": owner, "uid": "u", "controller": True}]
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "a"}}}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}


def _deployment(replicas: int) -> Object:
    return {**_replica_set(replicas), "kind": "Deployment", "metadata": {"name": "front", "namespace": "default"}}


def _pods(number: int, **spec: Any) -> list[Object]:
    return [running(f"a-{i}", f"n{i % 2}", **spec) for i in range(number)]


def _with(thing: Object, **status: Any) -> Object:
    return {**thing, "status": {**thing["status"], **status}}


def _allowed(*things: Object) -> int:
    """Return the number of disruptions that the cluster's only budget allows."""
    snapshot = from_objects([node("n0"), node("n1"), *things])
    (guard,) = Guards(snapshot).of(snapshot.pods[0])
    return guard.allowed


@pytest.mark.parametrize(
    ("fields", "extra", "allowed"),
    [
        ({"minAvailable": 3}, [], 1),
        ({"minAvailable": 5}, [], 0),
        ({"minAvailable": "50%"}, [], 2),
        ({"minAvailable": "51%"}, [], 1),  # rounded up: three of four
        ({"maxUnavailable": 1}, [], 1),
        ({"maxUnavailable": "30%"}, [], 2),  # rounded up, too
        ({"maxUnavailable": 1}, [_replica_set(5)], 0),  # one is missing already
        ({"maxUnavailable": "40%"}, [_replica_set(5)], 1),
        ({"maxUnavailable": 1}, [_replica_set(4, owner="front"), _deployment(6)], 0),
        ({"minAvailable": "50%"}, [_replica_set(4, owner="front"), _deployment(6)], 1),
        ({"minAvailable": 3}, [_replica_set(9)], 1),  # a number needs no scale
        ({}, [], 0),
        ({"minAvailable": 0, "status": {"disruptionsAllowed": 1}}, [], 1),
        ({"minAvailable": 4, "status": {"disruptionsAllowed": 2, "currentHealthy": 4, "desiredHealthy": 2}}, [], 2),
        ({"minAvailable": 4, "status": {"currentHealthy": 6}}, [], 2),
    ],
)
def test_what_budgets_allow(fields: Object, extra: list[Object], allowed: int) -> None:
    assert _allowed(*_pods(4), budget("a", **fields), *extra) == allowed


def test_pods_that_count() -> None:
    """Unready, starting and terminating pods are not healthy; controllers without a scale allow nothing."""
    four, two = _pods(4), budget("a", minAvailable=2)
    assert _allowed(*four, two) == 2
    assert _allowed(*four[:3], _with(four[3], conditions=UNREADY), two) == 1
    assert _allowed(*four[:3], _with(four[3], phase="Pending"), two) == 1
    assert _allowed(*four[:3], {**four[3], "metadata": {**four[3]["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}, two) == 1
    assert _allowed(*four[:3], running("a-9", None), two) == 1
    assert _allowed(*_pods(4, owner="Job/a"), budget("a", maxUnavailable=1)) == 0
    assert _allowed(*_pods(4, owner="Job/a"), budget("a", minAvailable=3)) == 1


def _leaving(things: list[Object], count: int, *, waves: int = 1) -> set[str]:
    """The rules that ``count`` pods violate by moving from n0 to n1."""
    steps = [move(i + 1, i % waves + 1, f"a-{2 * i}", "n0", "n1") for i in range(count)]
    steps.sort(key=lambda step: step.wave)
    for number, step in enumerate(steps, 1):
        step.step = number
    return rules(*plan([node("n0"), node("n1"), *things], (), (tier("moves", -count),), *steps))


def test_waves() -> None:
    """A budget holds in each wave; what moved in the last one is healthy again."""
    four = [*_pods(4), budget("a", minAvailable=3)]
    assert _leaving(four, 2) == {"PodDisruptionBudget"}
    assert _leaving(four, 2, waves=2) == set()


def test_unhealthy_pods() -> None:
    """Pods that are not ready go for free where the policy says so, or the others are enough; starting ones always do."""
    ready = _pods(4)
    sick = [_with(ready[0], conditions=UNREADY), ready[1], ready[2], ready[3]]
    status = {"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2}
    short = {"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 4}
    assert _leaving([*ready, budget("a", status=status)], 2) == {"PodDisruptionBudget"}
    assert _leaving([*sick, budget("a", status=status)], 2) == set()
    assert _leaving([*sick, budget("a", status=short)], 2) == {"PodDisruptionBudget"}
    assert _leaving([*sick, budget("a", status=short, unhealthyPodEvictionPolicy="AlwaysAllow")], 2) == set()
    starting = [_with(ready[0], phase="Pending"), *ready[1:]]
    assert _leaving([*starting, budget("a", status=short)], 2) == set()


def test_evicted_pods_stay_missing() -> None:
    things = [*(node(f"n{i}") for i in range(3)), *_pods(4), budget("a", minAvailable=3)]
    gone = evict(1, 1, "a-0", "n0")
    document = plan(
        things, ("drain",), (tier("drained", 0), tier("evictions", -1, 0), tier("moves", -1)), gone, move(2, 2, "a-2", "n0", "n1"),
        drain=("n0",), limits=Limits(allowEviction=True),
    )  # fmt: skip
    assert [rule for rule, _ in faults(*document)] == ["PodDisruptionBudget"]


def _moved_on(thing: Object, *budgets: Object, evicted: bool = False) -> list[str]:
    """Return the faults of a plan that moves a pod off a drained node, and then moves it again or evicts it."""
    things = [*(node(f"n{i}") for i in range(3)), thing, *budgets]
    tiers = (tier("drained", 0), tier("evictions", -int(evicted), 0), tier("moves", -2 + int(evicted)))
    second = evict(2, 2, "a-0", "n1") if evicted else move(2, 2, "a-0", "n1", "n2")
    document = plan(things, ("drain",), tiers, move(1, 1, "a-0", "n0", "n1", stopover=True), second, drain=("n0",),
                    limits=Limits(allowEviction=True))  # fmt: skip
    return [why for _, why in faults(*document)]


def test_pods_that_go_without_their_budget_move_once() -> None:
    """Their replacement is Ready, so that the budget guards it."""
    pod, status = running("a-0", "n0"), {"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2}
    sick, starting = _with(pod, conditions=UNREADY), _with(pod, phase="Pending")
    again = ["step 2 (wave 2): the pod is Ready since it moved, and its budget was not asked for it"]
    second = {**budget("a", status=status), "metadata": {"name": "b", "namespace": "default"}}
    assert _moved_on(pod, budget("a", status=status)) == []
    assert _moved_on(sick) == []
    assert _moved_on(sick, budget("a", status=status)) == again
    assert _moved_on(sick, budget("a", status={**status, "currentHealthy": 1})) == []  # it takes one of those allowed, both times
    assert _moved_on(sick, budget("a", status={**status, "currentHealthy": 1}, unhealthyPodEvictionPolicy="AlwaysAllow")) == again
    assert _moved_on(starting, budget("a", status=status)) == again
    assert _moved_on(starting, budget("a", status=status), second) == again
    assert again[0] in _moved_on(sick, budget("a", status=status), evicted=True)


# --- exclusions ---------------------------------------------------------------------------------------------------------------

_SAFE, _EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict", "descheduler.alpha.kubernetes.io/evict"
_DISK = [{"name": "v", "emptyDir": {}}]


def _noted(thing: Object, **metadata: Any) -> Object:
    return {**thing, "metadata": {**thing["metadata"], **metadata}}


def _bare(**spec: Any) -> Object:
    thing = running("a-0", "n0", **spec)
    del thing["metadata"]["ownerReferences"]
    return thing


_CLAIM = {
    "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": {"devices": {}},
    "metadata": {
        "name": "c", "namespace": "default",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a-0", "uid": "u", "controller": True}],
    },
}  # fmt: skip


def _asked(pod: str, *, uid: str = "", intent: str = "Eviction", over: str = "") -> Object:
    spec = {"target": {"pod": {"name": pod, "uid": uid}}, "requester": "example.com/drainer", "intent": intent}
    found: Object = {
        "apiVersion": "lifecycle.k8s.io/v1alpha1",
        "kind": "EvictionRequest",
        "metadata": {"name": "r", "namespace": "default"},
    }
    return {**found, "spec": spec, "status": {"conditions": [{"type": over, "status": "True"}] if over else []}}


EXCLUSIONS: list[tuple[str | None, list[Object], list[str]]] = [
    (None, [running("a-0", "n0")], []),
    ("terminating", [_noted(_bare(), deletionTimestamp="2026-01-01T00:00:00Z")], []),
    ("mirror", [_noted(running("a-0", "n0", owner="DaemonSet/d"), annotations={"kubernetes.io/config.mirror": "x"})], []),
    ("daemonset", [_noted(running("a-0", "n0", owner="DaemonSet/d"), annotations={_SAFE: "false"})], []),
    ("daemonset", [running("a-0", "n0", owner="DaemonSet/d"), _asked("a-0")], []),
    ("eviction-requested", [_noted(running("a-0", "n0"), uid="u"), _asked("a-0", uid="u")], []),
    ("eviction-requested", [_noted(_bare(), annotations={_SAFE: "false"}), _asked("a-0")], []),
    (None, [_noted(running("a-0", "n0"), uid="u"), _asked("a-0", uid="earlier")], []),
    (None, [running("a-0", "n0"), _asked("a-0", intent="Withdrawn")], []),
    (None, [running("a-0", "n0"), _asked("a-0", over="Failed")], []),
    (None, [running("a-0", "n0"), _asked("a-0", over="TargetEvicted")], []),
    (None, [running("a-0", "n0"), _asked("b-0")], []),
    ("do-not-disrupt", [_noted(_bare(), annotations={_SAFE: "false"})], []),
    ("do-not-disrupt", [_noted(_bare(), annotations={"karpenter.sh/do-not-disrupt": "true"})], []),
    (None, [_noted(running("a-0", "n0"), annotations={"karpenter.sh/do-not-disrupt": "false"})], []),
    ("do-not-disrupt", [_noted(_bare(), annotations={"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""})], []),
    ("bare", [_bare(volumes=_DISK)], []),
    ("local-storage", [_bare(volumes=_DISK)], ["bare"]),
    (None, [_bare(volumes=_DISK)], ["bare", "local-storage"]),
    (None, [_noted(_bare(volumes=_DISK), annotations={_EVICT: "true"})], []),
    ("owner", [running("a-0", "n0", owner="Rollout/r")], []),
    ("gang", [_noted(running(f"a-{i}", "n0"), annotations={"kubestow.dev/gang": "g"}) for i in range(2)], []),
    (None, [_noted(running("a-0", "n0"), annotations={"kubestow.dev/gang": "g"})], []),
    (None, [_noted(running(f"a-{i}", "n0"), annotations={"kubestow.dev/gang": "g", "kubestow.dev/min-member": "1"}) for i in range(2)], []),
    ("local-storage", [running("a-0", "n0", volumes=[{"name": "v", "hostPath": {"path": "/x"}}])], []),
    (None, [running("a-0", "n0", volumes=[{"name": "v", "emptyDir": {"medium": "Memory"}}])], []),
    (None, [_noted(running("a-0", "n0", volumes=_DISK), annotations={_SAFE: "true"})], []),
    ("devices", [running("a-0", "n0", resourceClaims=[{"name": "g", "resourceClaimName": "c"}]), budget("a", maxUnavailable=0)], []),
    ("devices", [_noted(running("a-0", "n0"), uid="u"), _CLAIM], []),
    ("budgets", [running("a-0", "n0"), budget("a", minAvailable=0), _noted(budget("a", minAvailable=0), name="b")], []),
    ("budgets", [running("a-0", "n0"), budget("a", maxUnavailable=0)], []),
    (None, [_with(running("a-0", "n0"), phase="Pending"), budget("a", maxUnavailable=0)], []),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "things", "lifted"), EXCLUSIONS)
def test_exclusions(reason: Any, things: list[Object], lifted: list[str]) -> None:
    """A pod that must not move is refused for its reason, and any other one is accepted; the plan has to list it."""
    out = [f"default/{thing['metadata']['name']}" for thing in things if thing["kind"] == "Pod"]
    excluded = [Excluded(reason, out)] if reason else []
    snapshot, document = plan(
        [node("n0"), node("n1"), *things], (), (tier("moves", -1),), move(1, 1, "a-0", "n0", "n1"),
        excluded=excluded, limits=Limits(alsoMove=lifted),
    )  # fmt: skip
    found = [why for rule, why in faults(snapshot, document) if rule == "RebalancePlan"]
    assert found == ([f"step 1 (wave 1): the pod must not be moved ({reason})"] if reason else [])
