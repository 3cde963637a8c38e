"""Tests of the stand-in's API: reads, writes and refusals match the real API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api_server import Behaviour, Server, SimulatedCluster
from tests.api_server.client import PODS, Client
from tests.objects import node, pod

Object = dict[str, Any]


@pytest.fixture
def world() -> SimulatedCluster:
    found = SimulatedCluster(Behaviour(scheduler="off", bookmarks=0.01))
    found.load([node("n1"), node("n2"), pod("a", node_name="n1", owner="ReplicaSet/web"), pod("p"), pod("q", labels={"app": "q"})])
    return found


@pytest.fixture
def client(world: SimulatedCluster) -> Iterator[Client]:
    with Server(world) as server:
        yield Client(server)


def test_discovery_names_what_kubectl_asks_for(client: Client) -> None:
    assert client.get("/api")["versions"] == ["v1"]
    groups = {one["name"] for one in client.get("/apis")["groups"]}
    assert {"apps", "batch", "policy", "coordination.k8s.io"} <= groups
    rows = {one["name"]: one for one in client.get("/api/v1")["resources"]}
    assert rows["pods"]["namespaced"]
    assert rows["pods/eviction"]["group"] == "policy"
    assert client.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    assert client.get("/version")["gitVersion"].startswith("v1.36")


def test_lists_come_in_pages_of_one_moment(client: Client, world: SimulatedCluster) -> None:
    first = client.get("/api/v1/pods?limit=2")
    assert [one["metadata"]["name"] for one in first["items"]] == ["a", "p"]
    assert first["metadata"]["remainingItemCount"] == 1
    world.create(pod("z"))
    rest = client.get(f"/api/v1/pods?limit=2&continue={first['metadata']['continue']}")
    assert [one["metadata"]["name"] for one in rest["items"]] == ["q"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    world.compact()
    code, status = client.send("GET", f"/api/v1/pods?limit=2&continue={first['metadata']['continue']}")
    assert (code, status["reason"]) == (410, "Expired")


def test_selectors_and_metadata_only(client: Client) -> None:
    assert [one["metadata"]["name"] for one in client.get("/api/v1/pods?labelSelector=app%3Dq")["items"]] == ["q"]
    assert [one["metadata"]["name"] for one in client.get("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1")["items"]] == ["a"]
    found = client.get(PODS, accept="application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
    assert found["kind"] == "PartialObjectMetadataList"
    assert set(found["items"][0]) == {"kind", "apiVersion", "metadata"}


def test_a_watch_has_every_change_since_a_version(client: Client, world: SimulatedCluster) -> None:
    version = client.get(PODS)["metadata"]["resourceVersion"]
    world.delete("Pod", "default/p", "someone")
    world.create(pod("r"))
    events = client.watch("/api/v1/pods", f"resourceVersion={version}&allowWatchBookmarks=true")
    assert [(one["type"], one["object"]["metadata"]["name"]) for one in (next(events), next(events))] == [("DELETED", "p"), ("ADDED", "r")]
    bookmark = next(events)
    assert bookmark["type"] == "BOOKMARK"
    assert int(bookmark["object"]["metadata"]["resourceVersion"]) > int(version)
    events.close()


@pytest.mark.parametrize("told", ["event", "status"])
def test_a_watch_from_a_forgotten_version_is_gone(told: Any) -> None:
    world = SimulatedCluster(Behaviour(scheduler="off", gone_as=told))
    world.load([node("n1"), pod("p")])
    with Server(world) as server:
        client = Client(server)
        version = client.get(PODS)["metadata"]["resourceVersion"]
        world.create(pod("q"))
        world.compact()
        events = list(client.watch("/api/v1/pods", f"resourceVersion={version}"))
    assert [one["type"] for one in events] == ["ERROR" if told == "event" else "STATUS"]
    assert events[0]["object"]["code"] == 410


def test_a_watch_goes_on(client: Client, world: SimulatedCluster) -> None:
    events = client.watch("/api/v1/nodes")
    assert {next(events)["object"]["metadata"]["name"] for _ in range(2)} == {"n1", "n2"}
    world.patch("Node", "n1", {"metadata": {"labels": {"x": "y"}}})
    assert next(events)["type"] == "MODIFIED"
    events.close()


def test_bindings_have_the_preconditions_of_the_real_storage(client: Client, world: SimulatedCluster) -> None:
    found = client.get(f"{PODS}/p")["metadata"]
    code, status = client.bind("p", "n1", uid="another")
    assert (code, status["reason"]) == (409, "Conflict")
    assert "Precondition failed: UID in precondition: another" in status["message"]
    assert client.bind("p", "n1", uid=found["uid"], resourceVersion="1")[0] == 409
    code, status = client.bind("p", "n1", uid=found["uid"])
    assert (code, status["status"]) == (201, "Success")
    code, status = client.bind("p", "n2")
    assert code == 409
    assert status["message"] == 'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
    assert client.bind("none", "n1")[0] == 404
    assert [(one.actor, one.key, one.node) for one in world.bound()] == [("client", "default/p", "n1")]


def test_a_binding_to_a_node_that_is_not_there_is_accepted(client: Client) -> None:
    assert client.bind("p", "nowhere")[0] == 201
    assert client.get(f"{PODS}/p")["spec"]["nodeName"] == "nowhere"


def test_gated_and_terminating_pods_are_not_bound(client: Client, world: SimulatedCluster) -> None:
    world.create(pod("gated", schedulingGates=[{"name": "g"}]))
    assert "non-empty .spec.schedulingGates" in client.bind("gated", "n1")[1]["message"]
    world.patch("Pod", "default/q", {"metadata": {"finalizers": ["example.com/x"]}})
    world.delete("Pod", "default/q")
    assert "is being deleted" in client.bind("q", "n1")[1]["message"]


def test_updates_by_put_need_the_version_that_is_current(client: Client, world: SimulatedCluster) -> None:
    found = client.get("/api/v1/nodes/n1")
    world.patch("Node", "n1", {"metadata": {"labels": {"x": "y"}}})
    code, status = client.send("PUT", "/api/v1/nodes/n1", found)
    assert (code, status["reason"]) == (409, "Conflict")
    assert "the object has been modified" in status["message"]
    fresh = client.get("/api/v1/nodes/n1")
    fresh["spec"]["unschedulable"] = True
    assert client.send("PUT", "/api/v1/nodes/n1", fresh)[0] == 200
    assert world.cordoned() == ["n1"]


def test_leases_are_created_once_and_updated_with_a_version(client: Client, world: SimulatedCluster) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    lease = {"metadata": {"name": "kubestow-apply"}, "spec": {"holderIdentity": "me"}}
    code, made = client.send("POST", path, lease)
    assert code == 201
    assert client.send("POST", path, lease)[1]["reason"] == "AlreadyExists"
    assert client.send("PUT", f"{path}/kubestow-apply", lease)[0] == 422
    made["spec"]["holderIdentity"] = "you"
    assert client.send("PUT", f"{path}/kubestow-apply", made)[0] == 200
    assert client.send("PUT", f"{path}/kubestow-apply", made)[0] == 409
    assert world.leases() == {"kube-system/kubestow-apply": "you"}


def test_patches_of_all_three_kinds(client: Client, world: SimulatedCluster) -> None:
    assert client.patch("/api/v1/nodes/n1", {"spec": {"unschedulable": True}, "metadata": {"annotations": {"a": "b"}}})[0] == 200
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    assert client.patch("/api/v1/nodes/n1", {"spec": {"taints": [taint], "unschedulable": None}}, "strategic-merge")[0] == 200
    found = client.get("/api/v1/nodes/n1")
    assert found["spec"]["taints"] == [taint]
    assert "unschedulable" not in found["spec"]
    change = [{"op": "test", "path": "/spec/taints/0/key", "value": "k"}, {"op": "remove", "path": "/spec/taints/0"}]
    assert client.patch("/api/v1/nodes/n1", change, "json")[0] == 200
    assert client.patch("/api/v1/nodes/n1", change, "json")[1]["reason"] == "Invalid"
    assert client.send("PATCH", "/api/v1/nodes/n1", {}, "text/plain")[0] == 415
    assert client.patch("/api/v1/nodes/n1", {"metadata": {"resourceVersion": "1"}})[0] == 409


def test_what_is_not_there_is_not_found(client: Client) -> None:
    code, status = client.send("GET", f"{PODS}/none")
    assert (code, status["reason"], status["message"]) == (404, "NotFound", 'pods "none" not found')
    assert client.send("GET", "/apis/example.com/v1/things")[0] == 404
    assert client.send("POST", "/api/v1/namespaces/nowhere/pods", pod("x", namespace="nowhere"))[0] == 404


def test_a_deletion_has_preconditions_and_grace(client: Client, world: SimulatedCluster) -> None:
    code, status = client.send("DELETE", f"{PODS}/a", {"preconditions": {"uid": "another"}})
    assert (code, status["reason"]) == (409, "Conflict")
    code, found = client.send("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 5})
    assert (code, found["metadata"]["deletionGracePeriodSeconds"]) == (200, 5)
    assert client.send("DELETE", f"{PODS}/p")[0] == 200
    assert world.get("Pod", "default/p") is None


def test_pods_are_created_by_generated_names(client: Client) -> None:
    names = set()
    for _ in range(2):
        made = pod("x")
        made["metadata"] = {"generateName": "job-"}
        code, found = client.send("POST", PODS, made)
        assert code == 201
        names.add(found["metadata"]["name"])
    assert len(names) == 2
    assert all(name.startswith("job-") and len(name) == 9 for name in names)


def test_a_dry_run_changes_nothing(client: Client, world: SimulatedCluster) -> None:
    before = world.core.store.version
    assert client.patch("/api/v1/nodes/n1?dryRun=All", {"spec": {"unschedulable": True}})[0] == 200
    assert client.evict("a", dryRun=["All"])[0] == 201
    assert world.core.store.version == before


def test_rights_can_be_taken_away() -> None:
    world = SimulatedCluster(Behaviour(scheduler="off", forbidden=frozenset({("patch", "nodes"), ("create", "pods/eviction")})))
    world.load([node("n1"), pod("a", node_name="n1")])
    with Server(world) as server:
        client = Client(server)
        code, status = client.patch("/api/v1/nodes/n1", {})
        assert (code, status["reason"]) == (403, "Forbidden")
        assert 'cannot patch resource "nodes" in API group "" at the cluster scope' in status["message"]
        assert client.evict("a")[0] == 403
        review = {"spec": {"resourceAttributes": {"verb": "patch", "resource": "nodes"}}}
        answer = client.send("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)[1]
        assert answer["status"] == {"allowed": False}
