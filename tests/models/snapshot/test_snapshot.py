"""Sources of input and their merging: files, directories, gzip, standard input, Lists, duplicates, hashes, warnings."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from kubestow.models.kube import kinds
from kubestow.models.snapshot import sources
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_objects, load

Object = dict[str, Any]


def pod(name: str, namespace: str | None = "prod", **fields: Any) -> Object:
    metadata: Object = {"name": name} | ({"namespace": namespace} if namespace is not None else {})
    spec = {"containers": [{"name": "c"}], **fields}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def node(name: str, **fields: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, **fields}


def as_list(*items: object, kind: str = "List", version: str = "v1") -> Object:
    return {"apiVersion": version, "kind": kind, "items": list(items)}


def names(snapshot: Snapshot) -> list[str | None]:
    return [p.metadata.name for p in snapshot.pods]


def problems(*paths: Path | str) -> list[str]:
    with pytest.raises(InputError) as error:
        load([str(p) for p in paths])
    assert error.value.problems
    assert all("\n" not in line for line in error.value.problems)
    return error.value.problems


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def write(content: object, name: str = "cluster.json") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return str(path)

    return write


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Any:
    def feed(content: bytes) -> str:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        return "-"

    return feed


# --- shapes of input --------------------------------------------------------------------------------------------------


def test_a_list_a_single_object_and_an_array(file: Any) -> None:
    assert names(load([file(as_list(pod("a"), pod("b")))])) == ["a", "b"]
    assert names(load([file(pod("a"))])) == ["a"]
    assert names(load([file([pod("a"), pod("b")])])) == ["a", "b"]


def test_lists_in_lists_and_lists_of_a_kind(file: Any) -> None:
    bare = {key: value for key, value in pod("b").items() if key not in ("apiVersion", "kind")}
    snapshot = load([file(as_list(as_list(pod("a"), kind="PodList"), as_list(as_list(bare, kind="PodList")), node("n")))])
    assert names(snapshot) == ["a", "b"]
    assert snapshot.counts() == {"Node": 1, "Pod": 2}


def test_the_order_of_keys_does_not_matter(file: Any) -> None:
    turned = {key: pod("a")[key] for key in ("spec", "metadata", "kind", "apiVersion")}
    late = {"items": [turned, pod("b")], "metadata": {"resourceVersion": ""}, "kind": "List", "apiVersion": "v1"}
    assert names(load([file(late)])) == ["a", "b"]


def test_empty_lists_are_no_error(file: Any) -> None:
    empties: list[object] = [as_list(), {"kind": "List", "items": None}, {"kind": "List"}, as_list(kind="PodList"), []]
    for empty in empties:
        assert load([file(empty)]).counts() == {}


@pytest.mark.parametrize("glue", ["", "\n", "  \n\t"])
def test_json_documents_one_after_the_other(file: Any, glue: str) -> None:
    text = glue.join(json.dumps(o, indent=2) for o in (pod("a"), as_list(pod("b"), pod("c")), pod("d")))
    assert names(load([file(text.encode())])) == ["a", "b", "c", "d"]


def test_json_is_told_by_its_content_not_by_the_name(file: Any) -> None:
    assert names(load([file(b" \n" + json.dumps(pod("a")).encode(), "cluster.yaml")])) == ["a"]
    assert names(load([file(b"kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n", "cluster.json")])) == ["a"]


def test_yaml_flow_style_in_a_yaml_file(file: Any) -> None:
    assert names(load([file(b"{kind: Pod, metadata: {name: a}, spec: {containers: [{name: c}]}}", "pod.yaml")])) == ["a"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le-bom"])
def test_byte_order_marks(file: Any, encoding: str) -> None:
    text = json.dumps(pod("a", nodeSelector={"size": "größe"}), ensure_ascii=False)
    content = b"\xff\xfe" + text.encode("utf-16-le") if encoding == "utf-16-le-bom" else text.encode(encoding)
    assert [p.spec.nodeSelector for p in load([file(content)]).pods] == [{"size": "größe"}]


def test_gzip_of_anything_whatever_its_name(file: Any, stdin: Any) -> None:
    packed = gzip.compress(json.dumps(as_list(pod("a"))).encode())
    assert names(load([file(packed, "a.json.gz")])) == ["a"]
    assert names(load([file(packed, "a.json")])) == ["a"]
    assert names(load([stdin(packed)])) == ["a"]
    assert names(load([file(gzip.compress(b"kind: Pod\nmetadata: {name: y}\nspec: {containers: [{name: c}]}"), "y.gz")])) == ["y"]


def test_large_files_are_read_like_small_ones(file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file(as_list(pod("a"), pod("b")))
    small = load([path])
    monkeypatch.setattr(sources, "CHUNK_BYTES", 7)
    large = load([path])
    assert names(large) == ["a", "b"]
    assert large.sha256 == small.sha256
    os.truncate(path, 100)
    assert problems(path) == [f"{path}: JSON is malformed: input data was truncated"]


def test_several_files_are_merged(file: Any, stdin: Any) -> None:
    paths = [file(pod("a"), "a.json"), file(node("n"), "n.json"), stdin(json.dumps(pod("b")).encode())]
    snapshot = load(paths)
    assert names(snapshot) == ["a", "b"]
    assert snapshot.counts() == {"Node": 1, "Pod": 2}


# --- directories ------------------------------------------------------------------------------------------------------


def test_directories_are_read_recursively_in_name_order(file: Any, tmp_path: Path) -> None:
    file(pod("c"), "dir/sub/x.json")
    file(b"kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n", "dir/a.yaml")
    file(gzip.compress(json.dumps(pod("b")).encode()), "dir/b.yml.gz")
    file(b"not read", "dir/README.md")
    file(b"not read", "dir/.hidden.json")
    file(b"not read", "dir/.git/x.json")
    assert names(load([str(tmp_path / "dir")])) == ["a", "b", "c"]


def test_a_directory_without_input_is_a_problem(tmp_path: Path) -> None:
    assert problems(tmp_path) == [f"{tmp_path}: holds no .json, .yaml or .yml file"]


def test_a_symlink_cycle_is_a_problem(file: Any, tmp_path: Path) -> None:
    file(pod("a"), "dir/a.json")
    (tmp_path / "dir" / "loop").symlink_to(tmp_path / "dir")
    assert problems(tmp_path / "dir") == [f"{tmp_path}/dir/loop: is a symbolic link to a directory above it"]


def test_symlinks_that_multiply_ways_do_not_multiply_work(file: Any, tmp_path: Path) -> None:
    for level in range(20):
        file(pod(f"p{level}"), f"level{level}/p.json")
    for level in range(19):
        for way in "ab":
            (tmp_path / f"level{level}" / way).symlink_to(tmp_path / f"level{level + 1}")
    assert len(names(load([str(tmp_path / "level0")]))) == 20


def test_a_dangling_symlink_and_a_missing_file_are_problems(tmp_path: Path) -> None:
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere")
    assert problems(tmp_path) == [f"{tmp_path}/gone.json: cannot be read: No such file or directory"]
    assert problems(tmp_path / "nowhere") == [f"{tmp_path}/nowhere: cannot be read: No such file or directory"]


def test_a_file_that_cannot_be_opened_is_a_problem(file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file(pod("a"))

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    assert problems(path) == [f"{path}: cannot be read: Permission denied"]


# --- kinds ------------------------------------------------------------------------------------------------------------

PLACES = {
    "ServiceAccount": "service_accounts", "RuntimeClass": "runtime_classes",
    "Node": "nodes", "Pod": "pods", "Namespace": "namespaces", "PriorityClass": "priority_classes", "Service": "services",
    "ResourceQuota": "resource_quotas", "LimitRange": "limit_ranges",
    "EvictionRequest": "eviction_requests",
    "PodDisruptionBudget": "pod_disruption_budgets", "PersistentVolume": "persistent_volumes", "StorageClass": "storage_classes",
    "PersistentVolumeClaim": "persistent_volume_claims", "CSINode": "csi_nodes", "NodeResourceTopology": "node_topologies",
    "PodGroup": "pod_groups", "Workload": "scheduling_workloads", "CSIDriver": "csi_drivers", "ResourceSlice": "resource_slices",
    "DeviceClass": "device_classes", "DeviceTaintRule": "device_taint_rules", "ResourceClaim": "resource_claims",
    "ResourceClaimTemplate": "resource_claim_templates",
    "CapacityBuffer": "capacity_buffers",
    "BalloonsPolicy": "balloons_policies", "TopologyAwarePolicy": "topology_aware_policies",
}  # fmt: skip


@pytest.mark.parametrize(("kind", "group"), [(kind.name, group) for kind in kinds.KINDS.values() for group in sorted(kind.groups)])
def test_every_kind_is_read_from_each_of_its_groups(kind: str, group: str) -> None:
    extras: dict[str, Object] = {
        "Pod": {"spec": {"containers": [{}]}},
        "PriorityClass": {"value": 1},
        "ResourceSlice": {"spec": {"driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}},
        "DeviceTaintRule": {"spec": {"taint": {"key": "k", "effect": "NoSchedule"}}},
    }
    obj: Object = {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind, "metadata": {"name": "x"}, **extras.get(kind, {})}
    snapshot = from_objects([obj])
    found = getattr(snapshot, PLACES[kind]) if kind in PLACES else snapshot.workloads[kind]
    assert len(found) == 1
    if isinstance(found, dict):
        assert list(found) == ["default/x" if kinds.KINDS[kind].namespaced else "x"]
    read: Any = next(iter(found.values() if isinstance(found, dict) else found))
    assert read.metadata.namespace == ("default" if kinds.KINDS[kind].namespaced else None)
    assert isinstance(read, kinds.KINDS[kind].type)
    assert snapshot.counts() == {kind: 1}


def test_other_kinds_are_counted_and_never_judged() -> None:
    snapshot = from_objects([
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": 3},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
        {"apiVersion": "example.com/v1", "kind": "Node", "spec": "anything"},
        {"apiVersion": "example.com/v1", "kind": "AllowList", "spec": {}, "metadata": {"name": "x"}},
    ])  # fmt: skip
    assert snapshot.ignored == {"ConfigMap": 2, "Node": 1, "AllowList": 1}
    assert snapshot.counts() == {}


def test_an_object_without_apiversion_is_taken_by_its_kind() -> None:
    assert from_objects([{"kind": "Deployment", "metadata": {"name": "d"}}]).counts() == {"Deployment": 1}


def test_namespaced_objects_without_a_namespace_live_in_default() -> None:
    assert from_objects([pod("a", None), pod("b", "")]).pods[0].metadata.namespace == "default"


def test_objects_that_cannot_be_identified_are_problems(file: Any) -> None:
    nameless = pod("a") | {"metadata": {"generateName": "web-"}}
    path = file(as_list(None, 3, {"metadata": {"name": "x"}}, {"kind": 7}, nameless, {"kind": "Pod"}, pod("fine")))
    assert problems(path) == [
        f"{path}: items[0]: got null, expected an object",
        f"{path}: items[1]: got 3, expected an object",
        f"{path}: items[2]: kind: missing, expected text such as Pod",
        f"{path}: items[3]: kind: got 7, expected text such as Pod",
        f"{path}: items[4]: Pod default/web-: metadata.name: missing, expected text (generateName is resolved by the API server only)",
        f"{path}: items[5]: Pod default/(no name): metadata: missing, expected an object",
        f"{path}: items[5]: Pod default/(no name): spec: missing, expected an object",
    ]


def test_a_bad_object_is_named_with_its_file_and_the_others_still_checked(file: Any) -> None:
    a = file(as_list(pod("x", overhead={"cpu": "?"}), pod("ok")), "a.json")
    b = file(as_list(pod("y", priority="high"), node("n", status={"capacity": []})), "b.json")
    lines = problems(a, b)
    assert [line.rsplit(": ", 1)[0] for line in lines] == [
        f"{a}: Pod prod/x: spec.overhead.cpu",
        f"{b}: Pod prod/y: spec.priority",
        f"{b}: Node n: status.capacity",
    ]


def test_line_breaks_and_controls_in_names_stay_on_one_line(file: Any) -> None:
    named, other = problems(file(pod("a\nb\x1b[31m\u2028", overhead={"cpu": "?"})))
    assert "Pod prod/a\\nb\\x1b[31m\\u2028: metadata.name: got" in named
    assert "Pod prod/a\\nb\\x1b[31m\\u2028: spec.overhead.cpu" in other


# --- duplicates -------------------------------------------------------------------------------------------------------


def test_identical_duplicates_are_kept_once(file: Any) -> None:
    snapshot = load([file(as_list(pod("a"), node("n"), pod("a")), "a.json"), file(pod("a"), "b.json"), file(node("n"), "c.json")])
    assert snapshot.counts() == {"Node": 1, "Pod": 1}


def test_duplicates_with_other_content_are_problems(file: Any) -> None:
    a, b = (
        file(as_list(pod("a"), node("n")), "a.json"),
        file(as_list(pod("a", priority=3), pod("a", "other"), node("n", spec={})), "b.json"),
    )
    assert problems(a, b) == [
        f"{b}: Pod prod/a: already in {a} with other content, expected each object once",
        f"{b}: Node n: already in {a} with other content, expected each object once",
    ]


def test_what_placement_does_not_read_does_not_make_a_difference() -> None:
    first, second = pod("a"), pod("a")
    second["metadata"]["managedFields"] = [{"manager": "x"}]
    second["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    assert len(from_objects([first, second]).pods) == 1


# --- hash -------------------------------------------------------------------------------------------------------------


def test_the_hash_depends_on_content_only(file: Any, stdin: Any) -> None:
    content = {"a": json.dumps(pod("a")).encode(), "b": json.dumps(pod("b")).encode()}
    a, b = file(content["a"], "a.json"), file(content["b"], "b.json")
    want = load([a, b]).sha256
    assert len(want) == 64
    assert load([b, a]).sha256 == want
    assert load([b, a, b]).sha256 == want
    assert load([file(gzip.compress(content["a"]), "a.json.gz"), b]).sha256 == want
    assert load([a, stdin(content["b"])]).sha256 == want
    assert load([a]).sha256 != want
    assert load([a, file(content["b"] + b"\n", "c.json")]).sha256 != want


def test_the_hash_of_plain_objects() -> None:
    want = from_objects([pod("a"), pod("b")]).sha256
    assert from_objects([pod("b"), pod("a")]).sha256 == want
    assert from_objects([pod("a"), pod("c")]).sha256 != want


# --- what needs all objects -------------------------------------------------------------------------------------------


def test_an_unknown_priority_class_is_a_problem_for_pending_pods_only(file: Any) -> None:
    path = file(as_list(node("n"), pod("p", priorityClassName="gold"), pod("b", priorityClassName="gold", nodeName="n")))
    want = "spec.priorityClassName: no PriorityClass 'gold' in the input, expected it or spec.priority"
    assert problems(path) == [f"{path}: Pod prod/p: {want}"]
    done = pod("d", priorityClassName="gold") | {"status": {"phase": "Succeeded"}}
    going = pod("g", priorityClassName="gold")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    snapshot = load([file(as_list(node("n"), pod("b", priorityClassName="gold", nodeName="n"), done, going))])
    assert [p.spec.priority for p in snapshot.pods] == [0, 0, 0]
    (warning,) = snapshot.warnings
    assert "'gold'" in warning


def test_priority_classes_may_come_later_and_from_another_file(file: Any) -> None:
    gold = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 9}
    snapshot = load([file(pod("p", priorityClassName="gold"), "a.json"), file(gold, "b.json")])
    assert snapshot.pods[0].spec.priority == 9


def test_pods_on_unknown_nodes_give_one_warning() -> None:
    gone = [pod(f"p{i}", nodeName=f"gone-{i % 5}") for i in range(7)]
    done = pod("done", nodeName="old") | {"status": {"phase": "Failed"}}
    snapshot = from_objects([node("n"), pod("fine", nodeName="n"), *gone, done])
    assert snapshot.warnings == ["7 pods run on nodes that the snapshot lacks: gone-0, gone-1, gone-2 and 2 more"]
    assert from_objects([node("n"), pod("a", nodeName="x")]).warnings == ["1 pod runs on nodes that the snapshot lacks: x"]


def test_large_yaml_gives_a_hint(file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubestow.models.snapshot.texts.bundles._LARGE_YAML_BYTES", 10)
    (warning,) = load([file(b"kind: ConfigMap\nmetadata: {name: a}\n", "big.yaml")]).warnings
    assert "JSON" in warning
    assert load([file(pod("a"))]).warnings == []


# --- sharing ----------------------------------------------------------------------------------------------------------


def test_replicas_share_their_parts_and_nothing_else() -> None:
    def replica(name: str, on: str | None, volume: str) -> Object:
        volumes = [{"name": volume, "projected": {}}, {"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        found = pod(name, volumes=volumes, tolerations=[{"key": "a"}], **({"nodeName": on} if on else {}))
        found["metadata"]["labels"] = {"app": "web"}
        return found

    nodes = [node("n1"), node("n2")]
    a, b, c = from_objects([*nodes, replica("a", "n1", "x"), replica("b", "n2", "y"), replica("c", None, "z")]).pods
    assert a.spec.containers is b.spec.containers is c.spec.containers
    assert a.metadata.labels is b.metadata.labels
    assert [p.spec.nodeName for p in (a, b, c)] == ["n1", "n2", None]
    claims = [[v.persistentVolumeClaim.claimName for v in p.spec.volumes or () if v.persistentVolumeClaim] for p in (a, b, c)]
    assert claims == [["a"], ["b"], ["c"]]


def test_a_problem_of_a_shared_part_is_told_for_each_pod() -> None:
    with pytest.raises(InputError) as error:
        from_objects([pod(name, overhead={"cpu": "?"}) for name in "abc"])
    assert [line.split(": ")[1] for line in error.value.problems] == ["Pod prod/a", "Pod prod/b", "Pod prod/c"]


def test_only_annotations_that_placement_reads_are_kept() -> None:
    noted = pod("a")
    noted["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": "x",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "cri-resource-manager.intel.com/affinity": "y",
        "kubernetes.io/config.mirror": "z",
    }
    kept = from_objects([noted]).pods[0].metadata.annotations
    assert kept == {k: v for k, v in noted["metadata"]["annotations"].items() if not k.startswith("kubectl")}


# --- plain objects ----------------------------------------------------------------------------------------------------


def test_plain_objects_enter_like_files(file: Any) -> None:
    objects = [node("n", status={"capacity": {"cpu": 4}}), pod("a", nodeName="n"), as_list(pod("b"))]
    loaded, given = load([file(as_list(*objects))]), from_objects(objects)
    assert given.nodes == loaded.nodes
    assert given.pods == loaded.pods


def test_any_mapping_will_do() -> None:
    assert names(from_objects([MappingProxyType(pod("a"))])) == ["a"]
    assert names(from_objects(iter([pod("a") | {"spec": {"containers": ({"name": "c"},)}}]))) == ["a"]


def test_past_validation_only_the_structure_counts() -> None:
    odd = pod(
        "a", containers=[], topologySpreadConstraints=[{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "?"}], overhead={"cpu": "?"}
    )
    snapshot = from_objects([odd, {"kind": "Pod", "metadata": {}, "spec": {}}], validate=False)
    assert len(snapshot.pods) == 2
    with pytest.raises(InputError):
        from_objects([pod("a", containers="none")], validate=False)


def test_objects_of_other_python_types_are_problems() -> None:
    odd: list[Any] = [pod("a", nodeName=object()), pod("b", priority=1.5), pod("c") | {"metadata": {1: 2}}, "text"]
    with pytest.raises(InputError) as error:
        from_objects(odd)
    assert [line.split(": ", 1)[1] for line in error.value.problems] == [
        "Pod prod/a: spec.nodeName: got a Python object, expected text",
        "Pod prod/b: spec.priority: got 1.5, expected a whole number",
        "Pod default/(no name): metadata.name: missing, expected text",
        "got 'text', expected an object",
    ]


def test_documents_of_our_own_are_no_part_of_a_snapshot_and_that_is_said(tmp_path: Path) -> None:
    own, other = "kubestow.dev/v1alpha1", "cluster.open-cluster-management.io/v1beta1"
    (tmp_path / "result.json").write_text(json.dumps({"apiVersion": own, "kind": "Placement", "assignments": []}))
    (tmp_path / "others.json").write_text(json.dumps({"apiVersion": other, "kind": "Placement", "metadata": {"name": "p"}}))
    snapshot = load([str(tmp_path)])
    assert snapshot.ignored == {"Placement": 2}
    assert snapshot.warnings == ["a 'Placement' of kubestow is not part of a snapshot and was ignored: pass it with --result"]


def test_text_that_is_not_utf8_is_a_problem_also_in_fields_that_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_bytes(json.dumps(pod("p", containers=[{"name": "c", "image": "odd"}])).encode().replace(b"odd", b"\x80"))
    assert problems(path) == [f"{path}: Pod prod/p: is not UTF-8 text"]


def test_manifests_of_groups_without_pods_are_pointed_out() -> None:
    group = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": "g", "namespace": "prod"}}
    assert from_objects([group], manifests=True).omissions == ["objects that only group pods, and no pods: PodGroup 1"]
    assert from_objects([group, pod("a")], manifests=True).omissions == []
    assert from_objects([group]).omissions == []
