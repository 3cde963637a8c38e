"""LimitRange and ResourceQuota: which new pods are refused, and why; the checker's own reading agrees."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kubestow.checker.rules.admission import quotas as checked
from kubestow.models.cluster.admission import refusals
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.models.workloads.expand import expand
from tests.objects import Object, node, pod

SPACE = {"namespace": "default"}


def quota(name: str = "q", scopes: list[str] | None = None, select: list[Object] | None = None, **hard: str) -> Object:
    spec: Object = {"hard": {key.replace("__", "/").replace("_", "."): value for key, value in hard.items()}}
    spec |= {"scopes": scopes} if scopes else {}
    spec |= {"scopeSelector": {"matchExpressions": select}} if select else {}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name, **SPACE}, "spec": spec}


def limits(kind: str = "Container", **item: Object) -> Object:
    spec = {"limits": [{"type": kind, **item}]}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", **SPACE}, "spec": spec}


def asking(name: str, requests: Object | None = None, most: Object | None = None, **more: Any) -> Object:
    found = pod(name, **more)
    found["spec"]["containers"][0]["resources"] = {"requests": requests or {}, "limits": most or {}}
    return found


def expanded(objects: list[Object], new: list[Object]) -> Snapshot:
    return expand(from_objects([node("n"), *objects]), from_objects(new, manifests=True)).snapshot


def refused(objects: list[Object], new: list[Object]) -> dict[str, tuple[str, str]]:
    """By name; the checker refuses the same pods by the same rules."""
    snapshot = expanded(objects, new)
    found = {snapshot.pods[i].metadata.name or "": refusal for i, refusal in refusals(snapshot).items()}
    own = {key.removeprefix("default/"): rule for key, (rule, _) in checked.refused(snapshot).items()}
    assert own == {name: rule for name, (rule, _) in found.items()}
    return found


def three(**more: Any) -> list[Object]:
    return [pod(f"p{i}", cpu="1", memory="1Gi", **more) for i in range(3)]


@pytest.mark.parametrize(
    ("hard", "left"),
    [
        ({"cpu": "2"}, 2), ({"requests_cpu": "2500m"}, 2), ({"memory": "1Gi"}, 1), ({"requests_memory": "3Gi"}, 3), ({"pods": "1"}, 1),
        ({"count__pods": "2"}, 2), ({"requests_nvidia.com__gpu": "0"}, 3), ({"limits_cpu": "1"}, 0), ({"configmaps": "0"}, 3),
    ],
)  # fmt: skip
def test_a_quota_is_used_up_pod_by_pod(hard: Object, left: int) -> None:
    found = refused([quota(**hard)], three())
    assert list(found) == [f"p{i}" for i in range(left, 3)]
    assert {rule for rule, _ in found.values()} <= {"ResourceQuota"}


def test_pods_of_the_cluster_have_been_admitted_and_count_as_used() -> None:
    running = [pod("r", cpu="1", node_name="n"), pod("waits", cpu="1")]
    found = refused([quota(cpu="3"), *running], three())
    assert found["p1"] == ("ResourceQuota", "exceeded quota: q, requested: cpu=1, used: cpu=3, limited: cpu=3")
    assert "waits" not in found
    assert refused([quota(cpu="0"), *running], []) == {}
    done = pod("done", cpu="9", node_name="n")
    done["status"]["phase"] = "Succeeded"
    assert len(refused([quota(cpu="3"), done], three())) == 0
    assert len(refused([quota(count__pods="3"), done], three())) == 1


def test_a_quota_of_another_namespace_is_none() -> None:
    other = quota(pods="0")
    other["metadata"]["namespace"] = "elsewhere"
    assert refused([other], three()) == {}


@pytest.mark.parametrize(
    ("made", "scopes", "select", "hit"),
    [
        ({}, ["NotBestEffort"], None, True), ({}, ["BestEffort"], None, False), ({}, ["Terminating"], None, False),
        ({"activeDeadlineSeconds": 5}, ["Terminating"], None, True), ({}, ["NotTerminating"], None, True), ({}, ["Unheard"], None, False),
        ({"priorityClassName": "high"}, None, [("PriorityClass", "In", ["high", "low"])], True),
        ({"priorityClassName": "high"}, None, [("PriorityClass", "NotIn", ["high"])], False),
        ({"priorityClassName": "high"}, ["NotBestEffort"], [("PriorityClass", "Exists", None)], True),
        ({}, None, [("PriorityClass", "Exists", None)], False), ({}, None, [("PriorityClass", "DoesNotExist", None)], True),
        ({}, ["CrossNamespacePodAffinity"], None, False),
        ({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "namespaceSelector": {}}]}}}, ["CrossNamespacePodAffinity"], None, True),
    ],
)  # fmt: skip
def test_scopes(made: Object, scopes: list[str] | None, select: list[tuple[str, str, list[str] | None]] | None, hit: bool) -> None:
    chosen = [{"scopeName": s, "operator": o, **({"values": v} if v else {})} for s, o, v in select or ()]
    classes = [{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5}]
    assert bool(refused([*classes, quota(scopes=scopes, select=chosen, pods="0")], [pod("p", **made)])) is hit


def test_what_a_quota_wants_stated() -> None:
    found = refused([quota(limits_memory="9Gi")], [pod("p")])
    assert found == {"p": ("ResourceQuota", "failed quota: q: must specify limits.memory for: c")}
    assert refused([quota(limits_memory="9Gi")], [asking("p", most={"memory": "1Gi"})]) == {}
    whole = asking("p", resources={"limits": {"memory": "1Gi"}})
    assert refused([quota(limits_memory="9Gi")], [whole]) == {}


@pytest.mark.parametrize(
    ("item", "requests", "most", "why"),
    [
        ({"min": {"cpu": "100m"}}, {"cpu": "50m"}, {"cpu": "1"}, "container c: 50m cpu is below the minimum of 100m"),
        ({"max": {"memory": "1Gi"}}, {}, {"memory": "2Gi"}, "container c: 2Gi memory is above the maximum of 1Gi"),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"cpu": "1"}, {"cpu": "3"}, "container c: limit 3 cpu is more than 2 times the request 1"),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"cpu": "1"}, {"cpu": "2"}, None),
        ({"default": {"cpu": "1"}}, {"cpu": "2"}, {}, "container c: request of 2 cpu is above its limit of 1"),
        ({"min": {"cpu": "100m"}}, {}, {}, None),  # the minimum is the default request
        ({"max": {"cpu": "1"}}, {}, {}, None),  # the maximum is the default limit
    ],
)
def test_limits_of_containers(item: Object, requests: Object, most: Object, why: str | None) -> None:
    found = refused([limits(**item)], [asking("p", requests, most)])
    assert found == ({} if why is None else {"p": ("LimitRanger", why)})


def test_limits_of_whole_pods() -> None:
    made = asking("p", {"cpu": "1"}, {"cpu": "1"})
    made["spec"]["initContainers"] = [{"name": "i", "image": "i", "resources": {"limits": {"cpu": "3"}}}]
    assert refused([limits("Pod", max={"cpu": "2"})], [made])["p"] == ("LimitRanger", "the pod: 3 cpu is above the maximum of 2")
    assert refused([limits("Pod", max={"cpu": "3"})], [made]) == {}


def test_defaults_are_in_the_new_pods_alone() -> None:
    item: Object = {"default": {"cpu": "2", "memory": "1Gi"}, "defaultRequest": {"cpu": "500m"}}
    bare = [asking("p"), asking("q", {"cpu": "1"})]
    snapshot = expanded([limits(**item), asking("old")], bare)
    found = {p.metadata.name: p.spec.containers[0].resources for p in snapshot.pods if p.spec.containers}
    assert found["p"] is not None
    assert found["q"] is not None
    assert (found["p"].requests, found["p"].limits) == ({"cpu": "500m", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"})
    assert found["q"].requests == {"cpu": "1", "memory": "1Gi"}
    assert found["old"] is None or not found["old"].requests


def _amounts(rng: random.Random) -> Object:
    return {name: rng.choice(values) for name, values in (("cpu", ["1", "500m", "0"]), ("memory", ["1Gi", "64Mi"])) if rng.random() < 0.6}


def _random(rng: random.Random) -> tuple[list[Object], list[Object]]:
    def made(name: str, **more: Any) -> Object:
        found = asking(name, _amounts(rng), {k: "2" if k == "cpu" else "2Gi" for k in _amounts(rng)}, **more)
        for i in range(rng.randrange(3)):
            container = {"name": f"i{i}", "image": "i", "resources": {"requests": _amounts(rng)}}
            found["spec"].setdefault("initContainers", []).append(container | ({"restartPolicy": "Always"} if rng.random() < 0.4 else {}))
        if rng.random() < 0.2:
            found["spec"]["activeDeadlineSeconds"] = 9
        if rng.random() < 0.2:
            found["spec"] |= {"runtimeClassName": "kata", "overhead": {"cpu": "100m"}}
        return found

    kinds = ["cpu", "requests_memory", "limits_cpu", "limits_memory", "pods", "count__pods"]
    scopes = [None, None, ["BestEffort"], ["NotBestEffort"], ["Terminating"], ["NotTerminating"]]
    quotas = []
    for i in range(rng.randrange(3)):
        hard: Object = {k: "3Gi" if "memory" in k else "3" for k in rng.sample(kinds, rng.randrange(1, 4))}
        quotas.append(quota(f"q{i}", rng.choice(scopes), **hard))
    ranges = []
    if rng.random() < 0.5:
        fields = ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio")
        ranges = [limits(rng.choice(["Container", "Pod"]), **{f: {"cpu": rng.choice(["1", "2"])} for f in fields if rng.random() < 0.4})]
    kata = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "kata"}, "handler": "kata"}
    kata["overhead"] = {"podFixed": {"cpu": "100m"}}
    return [kata, *quotas, *ranges, *(made(f"r{i}", node_name="n") for i in range(2))], [made(f"p{i}") for i in range(5)]


@pytest.mark.full
def test_the_checker_refuses_the_same_pods() -> None:
    """On five hundred random namespaces; both rules occur, and many pods pass."""
    rules: dict[str, int] = {}
    for seed in range(500):
        objects, new = _random(random.Random(seed))
        for rule, _ in refused(objects, new).values():
            rules[rule] = rules.get(rule, 0) + 1
    assert rules.keys() == {"ResourceQuota", "LimitRanger"}
    assert min(rules.values()) > 50
    assert sum(rules.values()) < 2000


def test_pods_that_are_gone_again_are_not_asked_about() -> None:
    snapshot = expanded([quota(pods="1")], three())
    snapshot.pods = [p for p in snapshot.pods if pod_key(p) != "default/p0"]
    assert [snapshot.pods[i].metadata.name for i in refusals(snapshot)] == ["p2"]
