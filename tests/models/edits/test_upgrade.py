"""Snapshots during an upgrade: the new nodes, and the result of a wave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubestow.models.documents.rebalance_plan import Move
from kubestow.models.documents.upgrade import NewNode, UpgradeWave
from kubestow.models.edits import upgrade as edits
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import InputError, from_objects
from tests.objects import node, pod

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def read(tmp_path: Path, text: str) -> dict[str, Any]:
    path = tmp_path / "to.yaml"
    path.write_text(text)
    return edits.read(str(path))


def clone(to: dict[str, Any] | None, **old: Any) -> Any:
    """Return the node that replaces n1."""
    snapshot = from_objects([node("n1", **{"labels": {ZONE: "a", "version": "1"}, **old})])
    return edits.with_new(snapshot, [NewNode("n1-new", "n1")], to).nodes[-1]


def test_a_patch_merges_maps_and_replaces_taints(tmp_path: Path) -> None:
    text = """
        metadata: {labels: {version: "2", gone: null}, annotations: {a: b}}
        spec: {taints: [{key: new, effect: NoSchedule}]}
        status: {allocatable: {cpu: 2, pods: null}, nodeInfo: {kubeletVersion: v1.37.0}}
    """
    found = clone(read(tmp_path, text), labels={ZONE: "a", "version": "1", "gone": "x"}, taints=[{"key": "old", "effect": "NoSchedule"}])
    assert found.metadata.labels == {HOST: "n1-new", ZONE: "a", "version": "2"}
    assert found.metadata.annotations == {"a": "b"}
    assert [taint.key for taint in found.spec.taints] == ["new"]
    assert found.status.allocatable == {"cpu": 2, "memory": "8Gi"}
    assert found.status.nodeInfo.kubeletVersion == "v1.37.0"


def test_a_node_gives_its_shape_but_not_its_place(tmp_path: Path) -> None:
    text = """
        apiVersion: v1
        kind: Node
        metadata: {name: like, uid: u, labels: {kubernetes.io/hostname: like, topology.kubernetes.io/zone: b, version: "2"}}
        spec: {podCIDR: 10.0.0.0/24, taints: [{key: node.kubernetes.io/not-ready, effect: NoSchedule}]}
        status: {conditions: [], allocatable: {cpu: "8", memory: 32Gi, pods: "110"}, nodeInfo: {kubeletVersion: v1.37.0, osImage: x}}
    """
    found = clone(read(tmp_path, text), taints=[{"key": "old", "effect": "NoSchedule"}])
    assert found.metadata.labels == {HOST: "n1-new", ZONE: "a", "version": "2"}
    assert not found.spec.taints
    assert found.status.allocatable == {"cpu": "8", "memory": "32Gi", "pods": "110"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("metadata: {name: x}", "unknown field `name`"),
        ("spec: {unschedulable: true}", "unknown field `unschedulable`"),
        ("status: {allocatable: {cpu: 5x}}", "status.allocatable.cpu: '5x' is not a quantity"),
        ("spec: {taints: [{key: a, effect: Never}]}", "spec.taints[0].effect"),
        ("metadata: {labels: {kubernetes.io/hostname: x}}", "every node has a value of its own"),
        ("kind: Pod", "kind: got 'Pod', expected Node or none"),
        ("[1]", "Expected `object`, got `array`"),
        ("", "empty"),
        ("a: [", "to.yaml"),
    ],
)
def test_what_no_node_can_be_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert len(caught.value.problems) == 1
    assert said in caught.value.problems[0]


def test_daemon_sets_run_on_the_new_nodes_that_they_want() -> None:
    def daemon(name: str, wanted: dict[str, str]) -> dict[str, Any]:
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c"}], "nodeSelector": wanted}}
        spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
        return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": "default"}, "spec": spec}

    objects = [node("n1", labels={"version": "1"}), pod("old-x", node_name="n1", owner="DaemonSet/old", labels={"app": "old"})]
    snapshot = from_objects([*objects, daemon("old", {"version": "1"}), daemon("both", {}), daemon("new", {"version": "2"})])
    found = edits.with_new(snapshot, [NewNode("n2", "n1")], {"metadata": {"labels": {"version": "2"}}})
    assert sorted((pod.metadata.labels or {})["app"] for pod in found.pods if pod.spec.nodeName == "n2") == ["both", "new"]


def test_a_wave_moves_pods_and_replaces_nodes() -> None:
    unready = pod("web", node_name="n1", owner="ReplicaSet/web")
    unready["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    objects = [node("n1"), node("n2"), node("n3"), unready, pod("agent", node_name="n2", owner="DaemonSet/agent")]
    wave = UpgradeWave(
        1, ["n1", "n2"], [NewNode("n1-new", "n1")], [NewNode("n2-new", "n2")], [Move(1, 1, "default/web", "n1", "n1-new", "n1 is drained")]
    )
    snapshot = from_objects(objects)
    assert [n.metadata.name for n in edits.before(snapshot, wave, None).nodes] == ["n1", "n2", "n3", "n1-new"]
    found = edits.left_by(edits.before(snapshot, wave, None), wave, None)
    assert [n.metadata.name for n in found.nodes] == ["n3", "n1-new", "n2-new"]
    (web,) = [each for each in found.pods if pod_key(each) == "default/web"]
    assert (web.spec.nodeName, web.status.conditions if web.status else "") == ("n1-new", None)
    assert [each.spec.nodeName for each in found.pods if each is not web] == ["n2-new"]
    assert len(snapshot.nodes) == 3
    assert [pod_key(each) for each in edits.stays(snapshot.pods, ["n1", "n2"])] == ["default/web"]


def test_names_of_new_nodes_are_free() -> None:
    used = {"n1", "n1-new"}
    assert [edits.new_name(used, "n1"), edits.new_name(used, "n1")] == ["n1-new-2", "n1-new-3"]
