"""Quotas and LimitRanges along the way of a change, for every kind of workload."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.documents.findings.check import WorkloadFit
from kubestow.models.documents.policy import Policy
from tests.audit.gate.test_changes import workload
from tests.audit.gate.test_gate import codes, fits, gate, named, on, only, running
from tests.objects import Object, node, pod
from tests.solver.rollout.interleavings import Interleavings, case

ROOM = [node(f"n{i}", cpu="64") for i in range(4)]
SURGE: Object = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
OVER = "exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4"


def quota(name: str = "q", **hard: str) -> Object:
    spec = {"hard": {key.replace("_", "."): value for key, value in hard.items()}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name, "namespace": "shop"}, "spec": spec}


def limits(**item: Object) -> Object:
    spec = {"limits": [{"type": "Container", **item}]}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "shop"}, "spec": spec}


def nodes_of(number: int) -> list[str]:
    return [f"n{i % 4}" for i in range(number)]


def change(kind: str, there: list[Object], count: int = 4, **after: Any) -> WorkloadFit:
    """The verdict on a new template for a workload that runs."""
    return only(gate([*ROOM, *there], [workload(kind, replicas=count, **{"image": "web:2", **after})]))


# --- Deployments ----------------------------------------------------------------------------------------------------------


def test_a_quota_without_room_for_a_surge_stops_a_rollout() -> None:
    found = change("Deployment", [*running("Deployment", *nodes_of(4), strategy=SURGE), quota(pods="4")], strategy=SURGE)
    assert (found.fit, found.placed, found.replicas, found.change) == ("does not fit", 0, 4, "rolling update")
    assert OVER in (found.cause or "")
    assert (found.fix or "").startswith("maxUnavailable 1 instead of 0; or raise quota q: pods 5 instead of 4")
    one = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    assert change("Deployment", [*running("Deployment", *nodes_of(4)), quota(pods="4")], strategy=one).fit == "fits"
    assert change("Deployment", [*running("Deployment", *nodes_of(4)), quota(pods="5")], strategy=SURGE).fit == "fits"


def test_a_limit_range_stops_a_rollout() -> None:
    found = change("Deployment", [*running("Deployment", *nodes_of(4)), limits(max={"cpu": "500m"})], strategy=SURGE)
    assert found.fit == "does not fit"
    assert "cannot be created: container c: request of 1 cpu is above its limit of 500m" in (found.cause or "")


def test_the_order_of_old_pods_opens_no_way_past_a_quota() -> None:
    """Old pods of different ages are ranked alike, and all use the same amount."""
    there = running("Deployment", *nodes_of(3), strategy=SURGE)
    found = change("Deployment", [*there, quota(requests_cpu="5")], 3, cpu="2", strategy=SURGE)
    assert (found.fit, found.placed) == ("does not fit", 1)
    assert "raise quota q: requests.cpu 7 instead of 5" in (found.fix or "")


def test_a_scaled_deployment_says_what_its_quota_lacks() -> None:
    found = only(gate([*ROOM, *running("Deployment", *nodes_of(4)), quota(pods="4")], [workload(replicas=6)]))
    assert (found.fit, found.placed, found.change) == ("does not fit", 4, "scaled")
    assert OVER in (found.cause or "")
    assert found.fix == "raise quota q: pods 6 instead of 4"


def test_replicas_that_are_raised_with_a_larger_template_may_be_overtaken() -> None:
    """Two old pods of 2 CPU become three of 1: another old one may come first, and then there is room for no new one."""
    there = running("Deployment", *nodes_of(2), cpu="2", strategy=SURGE)
    found = change("Deployment", [*there, quota(requests_cpu="6")], 3, cpu="1", strategy=SURGE)
    assert found.fit == "unproved"
    assert "the old ReplicaSet is scaled up first" in (found.cause or "")


def test_pods_that_wait_in_the_cluster_count() -> None:
    there = running("Deployment", *nodes_of(2), strategy=SURGE)
    waits = pod("waits", namespace="shop", cpu="1")
    assert change("Deployment", [*there, quota(pods="3")], 2, strategy=SURGE).fit == "fits"
    assert change("Deployment", [*there, waits, quota(pods="3")], 2, strategy=SURGE).fit == "does not fit"
    assert only(gate([*ROOM, waits, quota(pods="2")], [workload(replicas=2)])).fit == "does not fit"


def test_pods_of_a_deployment_that_wait_go_first() -> None:
    """With a pod that never came up, one may go for the first new one, as maxUnavailable has it, and it is that one."""
    there = running("Deployment", *nodes_of(3), strategy=SURGE)
    del there[1]["spec"]["nodeName"]
    there[1]["status"] = {"phase": "Pending"}
    found = change("Deployment", [*there, quota(pods="3")], 3, strategy=SURGE)
    assert (found.fit, found.placed) == ("does not fit", 0)
    assert change("Deployment", [*there, quota(pods="4")], 3, strategy=SURGE).fit == "fits"
    slow = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    assert change("Deployment", [*there, quota(pods="3")], 3, strategy=slow).fit == "fits"


# --- other kinds ----------------------------------------------------------------------------------------------------------


def test_a_stateful_set_needs_room_for_the_pod_that_comes_again() -> None:
    """The quota has room for the smaller new pods in the end, but not together with two old pods."""
    there = running("StatefulSet", *nodes_of(3), cpu="2")
    found = change("StatefulSet", [*there, quota(requests_cpu="4")], 3, cpu="1")
    assert (found.fit, found.placed) == ("does not fit", 0)
    assert "exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=4, limited: requests.cpu=4" in (found.cause or "")
    assert "raise quota q: requests.cpu 5 instead of 4" in (found.fix or "")
    assert change("StatefulSet", [*there, quota(requests_cpu="5")], 3, cpu="1").fit == "fits"
    larger = change("StatefulSet", [*running("StatefulSet", *nodes_of(3)), quota(requests_cpu="4")], 3, cpu="2")
    assert larger.fit == "does not fit"
    below = change("StatefulSet", [*running("StatefulSet", *nodes_of(3)), quota(pods="2")], 3)
    assert (below.fit, below.placed) == ("does not fit", 0)


@pytest.mark.parametrize(
    ("strategy", "hard", "fit", "placed"),
    [
        ({"maxSurge": 1, "maxUnavailable": 0}, {"pods": "4"}, "does not fit", 0),
        ({"maxSurge": 1, "maxUnavailable": 0}, {"pods": "5"}, "fits", 4),
        ({"maxUnavailable": 1}, {"pods": "4"}, "fits", 4),
        ({"maxUnavailable": 1}, {"pods": "3"}, "does not fit", 3),
        ({"maxUnavailable": "50%"}, {"pods": "3"}, "does not fit", 3),
    ],
)
def test_a_daemon_set_replaces_its_pods_node_by_node(strategy: Object, hard: dict[str, str], fit: str, placed: int) -> None:
    there = running("DaemonSet", *nodes_of(4), updateStrategy={"rollingUpdate": strategy})
    found = change("DaemonSet", [*there, quota(**hard)], updateStrategy={"rollingUpdate": strategy})
    assert (found.fit, found.placed) == (fit, placed), found.cause
    if fit != "fits":
        assert "raise quota q: pods " in (found.fix or "")
        assert "exceeded quota: q" in (found.cause or "")


def test_a_daemon_set_that_surges_may_let_old_pods_go_first() -> None:
    surging = {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}
    there = running("DaemonSet", *nodes_of(4), updateStrategy=surging)
    found = change("DaemonSet", [*there, quota(pods="4")], updateStrategy=surging)
    assert found.fix == "maxUnavailable 1 and maxSurge 0 instead of maxSurge 2; or raise quota q: pods 5 instead of 4"
    assert OVER in (found.cause or "")


def test_pods_of_a_new_job_count() -> None:
    job = workload("Job", parallelism=3)
    found = only(gate([*ROOM, *running("Deployment", "n0"), quota(pods="3")], [named_job(job)]))
    assert (found.fit, found.fix) == ("does not fit", "raise quota q: pods 4 instead of 3; or run 2 replicas of shop/job instead of 3")


def named_job(made: Object) -> Object:
    made["metadata"]["name"] = "job"
    made["spec"]["template"]["metadata"]["labels"] = {"app": "job"}
    return made


# --- several workloads ----------------------------------------------------------------------------------------------------


def test_what_another_workload_may_take_first_is_no_room() -> None:
    """One pod is left: the rollout needs it for a while, the new one for good."""
    there = running("Deployment", *nodes_of(2), strategy=SURGE)
    both = [workload(image="web:2", strategy=SURGE), named("b", replicas=1)]
    found = gate([*ROOM, *there, quota(pods="3")], both)
    assert fits(found) == {"Deployment shop/web": ("unproved", 0, 2), "Deployment shop/b": ("fits", 1, 1)}
    web = found.check.workloads[0]
    assert "if other workloads of the manifests use up the quota first: exceeded quota: q" in (web.cause or "")
    assert web.fix == "maxUnavailable 1 instead of 0; or raise quota q: pods 4 instead of 3"
    assert {fit for fit, _, _ in fits(gate([*ROOM, *there, quota(pods="4")], both)).values()} == {"fits"}


def test_two_rollouts_may_take_turns_with_one_pod() -> None:
    """The first rollout gives its extra pod of the quota back, and the second uses it then."""

    def there(name: str) -> list[Object]:
        pods = [
            pod(f"{name}-{i}", namespace="shop", labels={"app": name, "pod-template-hash": "1"}, cpu="1", memory="0", node_name="n0",
                owner=f"ReplicaSet/{name}-1")
            for i in range(2)
        ]  # fmt: skip
        return [named(name, strategy=SURGE), *pods]

    changed = [named(name, image="web:2", strategy=SURGE) for name in ("a", "b")]
    found = gate([*ROOM, *there("a"), *there("b"), quota(pods="5")], changed)
    assert {fit for fit, _, _ in fits(found).values()} == {"fits"}
    tight = gate([*ROOM, *there("a"), *there("b"), quota(pods="4")], changed)
    assert {fit for fit, _, _ in fits(tight).values()} == {"does not fit"}


def test_the_next_rollout_of_what_is_new_is_a_finding() -> None:
    found = gate([*ROOM, quota(pods="2")], [workload(strategy=SURGE)])
    assert only(found).fit == "fits"
    assert ("KS501", "Deployment shop/web") in codes(found)


# --- against every interleaving of controllers ------------------------------------------------------------------------------


@pytest.mark.full
def test_thirty_changes_fit_only_where_all_interleavings_of_controllers_complete() -> None:
    """None fits that may halt, and none is said not to fit that may complete."""
    expected = {frozenset({True}): "fits", frozenset({False}): "does not fit", frozenset({True, False}): "unproved"}
    seen: dict[str, int] = {}
    for seed in range(40):
        drawn = case(seed, scaled=seed % 3 == 0)
        verdict = only(gate(drawn.objects, [drawn.manifest]))
        if verdict.change in ("rolling update", "recreated"):
            assert verdict.fit == expected[frozenset(Interleavings(drawn).outcomes)], (seed, verdict.cause)
            seen[verdict.fit] = seen.get(verdict.fit, 0) + 1
    assert sum(seen.values()) >= 25
    assert min(seen["fits"], seen["does not fit"]) >= 5


# --- quotas that charge opportunity cost ------------------------------------------------------------------------------------

CHARGED = Policy(quotaCharge="opportunityCost")


def closing(objects: list[Object]) -> list[Object]:
    """The same with nodes that all pods close to pods of others."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for made in objects:
        spec = made["spec"]["template"]["spec"] if "template" in made["spec"] else made["spec"]
        spec["affinity"] = anti
    return objects


def test_a_rollout_is_charged_for_the_nodes_that_its_pods_close() -> None:
    there = closing(running("Deployment", "n0", "n1", strategy=SURGE))
    new = closing([workload(image="web:2", strategy=SURGE)])
    found = only(gate([*ROOM, *there, quota(requests_cpu="128")], new, policy=CHARGED))
    assert (found.fit, found.placed) == ("does not fit", 0)
    assert "used: requests.cpu=128, limited: requests.cpu=128, charged: requests.cpu=64 by opportunity cost over" in (found.cause or "")
    assert (found.fix or "").startswith("maxUnavailable 1 instead of 0; or raise quota q: requests.cpu 192 instead of 128")
    assert only(gate([*ROOM, *there, quota(requests_cpu="192")], new, policy=CHARGED)).fit == "fits"
    assert only(gate([*ROOM, *there, quota(requests_cpu="128")], new)).fit == "fits"


def test_another_workload_may_take_what_a_charge_needs() -> None:
    there = closing(running("Deployment", "n0", "n1", strategy=SURGE))
    both = [*closing([workload(image="web:2", strategy=SURGE)]), on(named("b", replicas=1), "n2")]
    for limit, fit in (("192", "unproved"), ("193", "fits")):
        found = gate([*ROOM, *there, quota(requests_cpu=limit)], both, policy=CHARGED)
        assert fits(found)["Deployment shop/web"][0] == fit
        assert fits(found)["Deployment shop/b"][0] == "fits"


def test_updates_of_a_daemon_set_count_requests_and_a_note_says_so() -> None:
    surging = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    there = closing(running("DaemonSet", *nodes_of(4), updateStrategy=surging))
    found = gate([*ROOM, *there, quota(requests_cpu="256")], closing([workload("DaemonSet", image="web:2", updateStrategy=surging)]))
    assert found.check.notes == []
    new = closing([workload("DaemonSet", image="web:2", updateStrategy=surging)])
    charged = gate([*ROOM, *there, quota(requests_cpu="256")], new, policy=CHARGED)
    note = "DaemonSet shop/web: quotas count the requests of its pods, not opportunity cost, while it is updated"
    assert (only(charged).fit, charged.check.notes) == ("fits", [note])
