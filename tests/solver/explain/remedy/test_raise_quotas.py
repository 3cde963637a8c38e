"""Quotas that are raised, and anti-affinity that is given up where quotas charge opportunity cost: each remedy works when applied."""

from __future__ import annotations

import pytest

from kubestow.checker.placement import verify
from kubestow.models.cluster.rollout_admission import with_quotas
from kubestow.models.documents.placement import Assignment, Placement, Remedy
from kubestow.models.documents.policy import Policy
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.models.workloads.expand import expand
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.objects import Object, node, pod

CHARGED = Policy(quotaCharge="opportunityCost")
HOST = "kubernetes.io/hostname"
ALL: Object = {"topologyKey": HOST, "labelSelector": {}, "namespaceSelector": {}}
NODES = [node("small", cpu="4"), node("large", cpu="8", memory="16Gi")]


def quota(name: str = "team", **hard: str) -> Object:
    named = {key.replace("_", "."): value for key, value in hard.items()}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name, "namespace": "default"}, "spec": {"hard": named}}


def refusing(name: str, **more: str) -> Object:
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [ALL]}}
    return pod(name, affinity=anti, **more)  # type: ignore[arg-type]


def deployment(replicas: int) -> Object:
    template = {key: refusing("x", labels={"app": "a"})[key] for key in ("metadata", "spec")}  # type: ignore[arg-type]
    template["metadata"] = {"labels": {"app": "a"}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "a"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "default"}, "spec": spec}


def solved(objects: list[Object], new: list[Object], policy: Policy = CHARGED, partial: bool = True) -> tuple[Snapshot, Placement]:
    snapshot = expand(from_objects([*NODES, *objects]), from_objects(new, manifests=True), partial=partial).snapshot
    found = place(snapshot, Options(policy=policy, time_limit=10, workers=1))
    assert verify(snapshot, found) == []
    return snapshot, found


def ways(placement: Placement) -> list[Remedy]:
    return [way for cause in placement.causes for way in cause.waysOut]


def test_a_quota_is_raised_by_what_is_missing() -> None:
    snapshot, found = solved([quota(requests_cpu="1500m", memory="128Mi")], [pod(f"p{i}", cpu="1") for i in range(2)], Policy())
    assert [entry.pod for entry in found.unplaced] == ["default/p1"]
    (way,) = [way for way in ways(found) if way.change == "raiseQuota"]
    assert way.message == "raise quota team: memory 256Mi instead of 128Mi, requests.cpu 2 instead of 1500m"
    assert way.arguments == {"default/team": "memory=256Mi,requests.cpu=2"}
    after = place(with_quotas(snapshot, {"default/team": {"memory": "256Mi", "requests.cpu": "2"}}), Options(time_limit=10, workers=1))
    assert after.unplaced == []


def test_what_an_earlier_pod_takes_of_a_raised_quota_is_counted() -> None:
    """big is refused first; the smallest quota is the one that suffices for small while big is still refused."""
    _, found = solved([quota(requests_cpu="2")], [pod("big", cpu="3"), pod("mid", cpu="2"), pod("small", cpu="500m")], Policy())
    messages = {cause.pods[0]: [way.message for way in cause.waysOut if way.change == "raiseQuota"] for cause in found.causes}
    assert messages == {
        "default/big": ["raise quota team: requests.cpu 3 instead of 2"],
        "default/small": ["raise quota team: requests.cpu 2500m instead of 2"],
    }
    _, found = solved([quota(requests_cpu="0")], [pod("first", cpu="400m"), pod("second", cpu="500m")], Policy())
    (way,) = [way for cause in found.causes for way in cause.waysOut if cause.pods == ["default/second"] and way.change == "raiseQuota"]
    assert (way.message, way.arguments["least"]) == ("raise quota team: requests.cpu 900m instead of 0", "unproved")


def test_two_quotas_are_raised_together() -> None:
    _, found = solved([quota(requests_cpu="0"), quota("other", pods="0")], [pod("p", cpu="1")], Policy())
    (way,) = [way for way in ways(found) if "quota" in way.message]
    assert (way.change, way.arguments) == ("raiseQuota", {"default/other": "pods=1", "default/team": "requests.cpu=1"})
    assert way.message == "raise quota other: pods 1 instead of 0; and raise quota team: requests.cpu 1 instead of 0"


def test_a_charge_has_its_remedies() -> None:
    snapshot, found = solved([quota(requests_cpu="9")], [deployment(2)], partial=False)
    (cause,) = found.causes
    assert [fact.rule for fact in cause.facts] == ["ResourceQuota"]
    over = "requested: requests.cpu=100m, used: requests.cpu=8, limited: requests.cpu=9, charged: requests.cpu=8 by opportunity cost over"
    assert f"exceeded quota: team, {over} kubernetes.io/hostname" in cause.facts[0].message
    assert [way.message for way in cause.waysOut] == [
        "raise quota team: requests.cpu 16 instead of 9",
        "run 1 replica of default/a instead of 2",
        "make the anti-affinity of default/a over kubernetes.io/hostname (all pods) preferred",
    ]
    raised = with_quotas(snapshot, {"default/team": {"requests.cpu": "16"}})
    assert place(raised, Options(policy=CHARGED, time_limit=10, workers=1)).unplaced == []
    less = with_quotas(snapshot, {"default/team": {"requests.cpu": "15999m"}})
    assert len(place(less, Options(policy=CHARGED, time_limit=10, workers=1)).unplaced) == 2


def test_anti_affinity_is_no_way_out_of_a_quota_on_requests() -> None:
    _, found = solved([quota(requests_cpu="0")], [refusing("p", cpu="1")], Policy())
    assert [way.change for way in ways(found)] == ["raiseQuota"]


def test_pods_that_this_run_places_are_charged_as_when_they_were_created() -> None:
    """The first pod gets a small node. The quota counts the large one for it all the same, so that the least is 16, not 12."""
    full = pod("full", namespace="other", cpu="7500m", node_name="large")
    snapshot, found = solved([quota(requests_cpu="8"), full, node("small-2", cpu="4")], [refusing("a"), refusing("b")])
    assert [(entry.pod, entry.node[:5]) for entry in found.assignments] == [("default/a", "small")]
    (way,) = [way for way in ways(found) if way.change == "raiseQuota"]
    assert way.message == "raise quota team: requests.cpu 16 instead of 8"
    after = place(with_quotas(snapshot, {"default/team": {"requests.cpu": "16"}}), Options(policy=CHARGED, time_limit=10, workers=1))
    assert len(after.assignments) == 2


@pytest.mark.parametrize("engine", ["auto", "exact", "greedy", "lns"])
def test_every_engine_leaves_what_is_charged_too_much(engine: str) -> None:
    snapshot, _ = solved([quota(requests_cpu="9")], [refusing("a"), refusing("b")])
    found = place(snapshot, Options(engine=engine, policy=CHARGED, time_limit=5, workers=1, causes=False))  # type: ignore[arg-type]
    assert [(entry.pod, entry.reasons[0].rule) for entry in found.unplaced] == [("default/b", "ResourceQuota")]
    assert verify(snapshot, found) == []
    found.assignments.append(Assignment("default/b", "small" if found.assignments[0].node == "large" else "large", 9))
    found.unplaced = []
    assert ("default/b", "ResourceQuota") in {(violation.pod, violation.rule) for violation in verify(snapshot, found)}
    found.policy = None  # by requests it is allowed
    assert "ResourceQuota" not in {violation.rule for violation in verify(snapshot, found)}
