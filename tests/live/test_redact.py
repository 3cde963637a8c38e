"""Redacted objects hold only fields that are read, and read like the complete ones."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubestow.instances.generate.generator import Parameters, generate
from kubestow.live.capture_kinds import NOT_ASKED
from kubestow.live.redact import PRESENT, READ, Keeper, kept_annotations
from kubestow.models.kube import kinds, storage_objects
from kubestow.models.kube import objects as kube_objects
from kubestow.models.snapshot import capture_info, interning
from kubestow.models.snapshot.snapshot import Snapshot, from_objects, load
from kubestow.models.workloads.template import DIGESTS, annotation_digest
from tests.live.capture_objects import KEPT, SECRET, cluster

_ROOT = Path(__file__).resolve().parents[2]
_RECORDED = sorted((_ROOT.parent / "shared" / "data" / "clusters").glob("*.json"))
_NO_CLUSTERS = ("catalogue", "descheduler-policy", "scheduler")
_INSTANCES = sorted(p for p in (_ROOT / "instances").glob("*.yaml") if not p.stem.endswith("-workload") and p.stem not in _NO_CLUSTERS)
#: Objects in which any key is data, of labels, resources and the like.
_MAPS = {"labels", "annotations", "matchLabels", "nodeSelector", "requests", "limits", "capacity", "allocatable", "overhead"}
_MAPS |= {
    "attributes",
    "counters",
    "consumedCapacity",
    "allocatedResources",
    "minResources",
    "minTaskMember",
    "hard",
    "default",
    "defaultRequest",
    "max",
    "min",
    "maxLimitRequestRatio",
    "podFixed",
}

Object = dict[str, Any]


def kept(obj: Object, *, redact: bool = True) -> Object | None:
    """The object after capture, as part of a list that does not say what its items are; without the digests of its template's
    annotations."""
    kind = kinds.find(obj["apiVersion"], obj["kind"])
    if kind is None:
        return None
    keeper = Keeper(kind, obj["apiVersion"], redact=redact)
    item = {k: v for k, v in obj.items() if k not in ("apiVersion", "kind")}
    found, token = keeper.page(json.dumps({"kind": f"{kind.name}List", "apiVersion": obj["apiVersion"], "items": [item]}).encode())
    assert (token, keeper.problems) == ("", [])
    result: Object = json.loads(found[0])
    annotations = result["metadata"].get("annotations", {})
    if redact and annotations.pop(DIGESTS, None) is not None and not annotations:
        del result["metadata"]["annotations"]
    return result


def redacted(objects: list[Object]) -> list[Object]:
    return [found for each in objects if (found := kept(each)) is not None]


def trimmed(value: object, *, annotations: bool = True) -> object:
    """Plain data of decoded objects, without what nothing reads: annotations, volumes without a source that matters, what CSI calls nodes,
    and handles of volumes, of which the test below."""
    if isinstance(value, kube_objects.ObjectMeta):
        value = copy.copy(value)
        interning.trim(value)
        if annotations:
            value.annotations = kept_annotations(value.annotations)
    if isinstance(value, kube_objects.PodSpec):  # reading drops them from pods, not from templates
        read = [volume for volume in value.volumes or () if volume != kube_objects.Volume(volume.name)]
        value = msgspec.structs.replace(value, volumes=read or None)
    if isinstance(value, storage_objects.CSIPersistentVolumeSource):
        return value.driver
    if isinstance(value, storage_objects.CSINodeDriver):
        value = msgspec.structs.replace(value, nodeID=None)
    if isinstance(value, msgspec.Struct):
        return {name: trimmed(getattr(value, name), annotations=annotations) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {name: trimmed(each, annotations=annotations) for name, each in value.items()}
    return [trimmed(each, annotations=annotations) for each in value] if isinstance(value, list) else value


def says(snapshot: Snapshot, *, annotations: bool = True) -> Object:
    """All that hard rules read: all but the hash of the files, the names of kinds that are not read, new objects of custom kinds, images
    and service accounts. ``annotations``: less
    those that nothing reads; instances have no such."""
    imageless(vars(snapshot))
    found = {name: value for name, value in vars(snapshot).items() if name not in ("sha256", "ignored", "custom_objects")}
    found["workloads"] = {kind: each for kind, each in snapshot.workloads.items() if kind in kinds.KINDS}  # captures have no custom objects
    return {name: trimmed(value, annotations=annotations) for name, value in found.items()}


def imageless(value: Any) -> None:
    """Take all images, and names of service accounts, out of a value."""
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            if name in ("image", "images", "serviceAccountName"):
                setattr(value, name, None)
            else:
                imageless(getattr(value, name))
    elif isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            imageless(each)


def objects_of(path: Path) -> list[Object]:
    if path.suffix == ".json":
        found: list[Object] = json.loads(path.read_text())["items"]
        return found
    import yaml

    return [each for each in yaml.safe_load_all(path.read_text()) if each]


@pytest.mark.parametrize("path", [*_RECORDED, *_INSTANCES], ids=lambda p: p.stem)
def test_redacted_clusters_read_as_they_did(path: Path) -> None:
    found = redacted(objects_of(path))
    recorded = path in _RECORDED
    assert says(from_objects(found), annotations=recorded) == says(load([str(path)]), annotations=recorded)


def test_redacted_generated_clusters_read_as_they_did() -> None:
    objects = list(generate(Parameters(60, 600, seed=5)).objects())
    assert says(from_objects(redacted(objects))) == says(from_objects(objects))


def test_laden_objects_read_as_they_did_and_hold_no_secret() -> None:
    objects = cluster()
    assert {kind for each in objects if (kind := each["kind"]) in kinds.KINDS} == set(kinds.KINDS) - NOT_ASKED
    found = redacted(objects)
    assert says(from_objects(found)) == says(from_objects(objects))
    assert SECRET in json.dumps(objects)
    assert SECRET not in json.dumps(found)
    assert '"image' not in json.dumps(found)
    for each in found:
        assert {"resourceVersion", "managedFields", "generation", "finalizers"}.isdisjoint(each["metadata"])


def _volume(name: str, handle: str) -> Object:
    spec = {"csi": {"driver": "nfs.csi.k8s.io", "volumeHandle": handle, "volumeAttributes": {"server": handle}}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def test_handles_of_volumes_are_hashes_that_are_equal_where_the_handles_are() -> None:
    """Some hold the server, the share, the account; rules read only which are the same."""
    handles = ["nas.corp.example#share#pvc-1", "nas.corp.example#share#pvc-2", "nas.corp.example#share#pvc-1", "ü", ""]
    found = redacted([_volume(f"pv{i}", handle) for i, handle in enumerate(handles)])
    hashed = [each["spec"]["csi"]["volumeHandle"] for each in found]
    assert [[a == b for b in hashed] for a in hashed] == [[a == b for b in handles] for a in handles]
    assert "nas" not in json.dumps(found)
    assert {len(each) for each in hashed} == {32}
    assert [list(each["spec"]["csi"]) for each in found] == [["driver", "volumeHandle"]] * 5


def test_only_annotations_that_are_read_are_kept_wherever_they_are() -> None:
    def annotations(value: object) -> list[object]:
        if isinstance(value, dict):
            return [value[k] for k in value if k == "annotations"] + [a for v in value.values() for a in annotations(v)]
        return [a for v in value for a in annotations(v)] if isinstance(value, list) else []

    for obj, each in zip([o for o in cluster() if kept(o)], redacted(cluster()), strict=True):
        found = annotations(each)
        assert found == [KEPT] * len(found), obj["kind"]
        assert len(found) <= len(annotations(obj))
    pod = next(o for o in redacted(cluster()) if o["kind"] == "Pod")
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["host", "disk", "scratch", "fast"]  # not those of secrets
    assert pod["spec"]["volumes"][2]["ephemeral"]["volumeClaimTemplate"]["metadata"]["annotations"] == KEPT
    job = next(o for o in redacted(cluster()) if o["kind"] == "CronJob")["spec"]["jobTemplate"]
    assert [job["metadata"]["annotations"], job["spec"]["template"]["metadata"]["annotations"]] == [KEPT, KEPT]
    claim = next(o for o in redacted(cluster()) if o["kind"] == "StatefulSet")["spec"]["volumeClaimTemplates"][0]
    assert claim["metadata"]["annotations"] == KEPT


def test_annotations_are_kept_by_their_names_and_not_by_their_prefixes() -> None:
    """Anyone who may annotate can write any name under a prefix that is read."""
    given = {f"{prefix}password": SECRET for prefix in interning.ANNOTATIONS}
    given |= {"controller.kubernetes.io/my-cost": "12", "kubestow.dev/tags.app": "tier=web", "kubestow.dev/gang": "train"}
    given |= {"kubernetes.io/config.mirror": SECRET, "kubestow.dev/my-cost": f"5{SECRET}", "kubestow.dev/other": "12345678"}
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": given}, "spec": {}}
    found = kept(obj)
    assert found is not None
    assert found["metadata"]["annotations"] == {
        "controller.kubernetes.io/my-cost": "12",
        "kubestow.dev/tags.app": "tier=web",
        "kubestow.dev/gang": "train",
        "kubernetes.io/config.mirror": "",
        "cri-resource-manager.intel.com/password": "",
        "resource-policy.nri.io/password": "",
    }


def test_annotations_of_node_policies_leave_their_names() -> None:
    """Unmodelled fields are named by their key; values stay where a rule reads them."""
    balloon, strict = "balloon.balloons.resource-policy.nri.io/pod", "strict.topologyhints.resource-policy.nri.io/container.a"
    given = {balloon: "fast", strict: "true", "class.memory-qos.nri.io": SECRET, "nri.io.example.com/x": SECRET}
    assert kept_annotations(given) == {balloon: "fast", strict: "true", "class.memory-qos.nri.io": ""}


def test_annotations_of_templates_leave_digests() -> None:
    given = {"prometheus.io/scrape": "true", "note": SECRET, "kubestow.dev/gang": "train"}
    template = {"metadata": {"annotations": given}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spoof = {"annotations": {DIGESTS: SECRET}}
    for stated, metadata in ((given, {}), ({}, {}), (given, spoof)):
        template = {**template, "metadata": {"annotations": stated}}
        keeper = Keeper(kinds.KINDS["Deployment"], "apps/v1")
        obj = {"kind": "Deployment", "metadata": {"name": "a", **metadata}, "spec": {"template": template}}
        (found,) = keeper.single(json.dumps(obj).encode())
        assert SECRET.encode() not in found
        digests = [f"{annotation_digest('', key)}={annotation_digest('', key, value)}" for key, value in stated.items()]
        assert json.loads(found)["metadata"]["annotations"] == {DIGESTS: ",".join(sorted(digests))}


def test_every_annotation_that_the_code_names_is_kept() -> None:
    """By the text of the models and the checker: what has a prefix that is read from a snapshot, as far as it is no label or field."""
    others = {
        "kueue.x-k8s.io/queue-name",  # a label
        "scheduling.k8s.io/v1", "scheduling.k8s.io/v1alpha1", "scheduling.k8s.io/v1alpha2", "kubestow.dev/v1alpha1",
    }  # fmt: skip
    others |= {"karpenter.sh/disruption", "karpenter.sh/disrupted", "karpenter.sh/unregistered", "kubestow.dev/let-in"}  # taints
    others.add("kubestow.dev/unreadable")  # a label that no node has
    others.add("kubestow.dev/placement")  # a scheduling gate
    others |= {"karpenter.sh/nodepool", "karpenter.sh/initialized", "karpenter.sh/v1"}  # labels, and a version
    others |= {"karpenter.sh/capacity-type", "kubestow.dev/bought"}  # a label, and what nodes carry that no cluster has
    others |= {"nvidia.com/use-gpu", "nvidia.com/nouse-gpu"}  # how names of annotations begin
    others |= {"topology.kubernetes.io/zone", "topology.kubernetes.io/region", "topology.scs.community/host-id"}
    others |= {f"topology.{name}/zone" for name in ("ebs.csi.aws.com", "gke.io", "cinder.csi.openstack.org")}  # labels
    others.add(DIGESTS)  # written by captures, over what objects say
    others |= {capture_info.CLUSTER, capture_info.TIME, capture_info.SERVER_VERSION, capture_info.LEFT_OUT}
    named = set()
    for folder in ("models", "checker", "solver", "audit"):
        for path in (_ROOT / folder).rglob("*.py"):
            named |= set(re.findall(r'"([a-z0-9.-]+\.[a-z0-9-]+/[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9])"', path.read_text()))
    wanted = {name for name in named if name.startswith(interning.ANNOTATIONS)} - others
    assert wanted <= READ | PRESENT
    assert len(wanted) > 20


_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12).map(lambda text: f"zz-{text}")
_VALUES = st.recursive(st.just("LEAK"), lambda inner: st.lists(inner, min_size=1, max_size=2) | st.dictionaries(_NAMES, inner, min_size=1))


@pytest.mark.full
@given(st.data())
@settings(max_examples=150, deadline=None)
def test_random_extra_fields_never_survive(data: st.DataObject) -> None:
    obj = data.draw(st.sampled_from([o for o in cluster() if kinds.find(o["apiVersion"], o["kind"])]))
    before = kept(obj)
    places: list[tuple[str, Object]] = []

    def walk(value: object, name: str) -> None:
        if isinstance(value, dict):
            free = name in _MAPS or (name == "selector" and obj["kind"] in ("Service", "ReplicationController"))
            if not free:
                places.append((name, value))
            if name == "annotations":
                places.append((name, value))
            for key, each in value.items():
                walk(each, key)
        elif isinstance(value, list):
            for each in value:
                walk(each, name)

    walk(obj, "")
    for name, place in data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=5)):
        place[data.draw(_NAMES)] = "LEAK" if name == "annotations" else data.draw(_VALUES)
    assert "LEAK" in json.dumps(obj)
    assert kept(obj) == before


def test_whole_objects_lose_only_their_managed_fields() -> None:
    for obj in cluster():
        found = kept(obj, redact=False)
        if found is not None:
            expected = copy.deepcopy(obj)
            del expected["metadata"]["managedFields"]
            assert found == expected
            assert list(found)[:2] == ["apiVersion", "kind"]


def test_items_that_say_what_they_are_keep_their_version() -> None:
    group = next(o for o in cluster() if o["apiVersion"] == "scheduling.volcano.sh/v1beta1")
    keeper = Keeper(kinds.KINDS["PodGroup"], "scheduling.volcano.sh/v1beta1")
    found, token = keeper.page(json.dumps({"kind": "AnyList", "metadata": {"continue": "x"}, "items": [group]}).encode())
    assert token == "x"
    assert json.loads(found[0])["apiVersion"] == "scheduling.volcano.sh/v1beta1"
    assert found[0].count(b"apiVersion") == 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("", "expected an API list: Input data was truncated"),
        ("<html>", "expected an API list: JSON is malformed: invalid character (byte 0)"),
        ('{"kind": "PodList", "items": [{"metadata": ', "expected an API list: Input data was truncated"),
        ('{"kind": "PodList", "items": 3}', "expected an API list: Expected `array | null`, got `int` - at `$.items`"),
        ('{"kind": "PodList"}', "expected an API list: Object missing required field `items`"),
        ('{"kind": "Status", "items": []}', "got a Status, expected a list of Pod objects"),
        ("[]", "expected an API list: Expected `object`, got `array`"),
        ('{"kind": "PodList", "items": [\xff]}', "expected an API list: "),
    ],
)
def test_what_is_no_list_is_refused(answer: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^(got|expected) ") as caught:
        Keeper(kinds.KINDS["Pod"], "v1").page(answer.encode("latin-1"))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("redact", [True, False])
def test_what_is_no_object_is_refused(redact: bool) -> None:
    keeper = Keeper(kinds.KINDS["Namespace"], "v1", redact=redact)
    assert json.loads(keeper.single(b'{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "a"}}')[0])["metadata"]["name"] == "a"
    with pytest.raises(ValueError, match="got a Secret, expected a Namespace"):
        keeper.single(b'{"kind": "Secret", "metadata": {}}')


def test_odd_objects_are_left_out_and_named() -> None:
    pods: list[Object] = [
        {"metadata": {"name": "a", "namespace": "x"}, "spec": {"containers": "none"}},
        {"metadata": {"name": "b", "namespace": "x"}, "spec": {"overhead": {"cpu": "LARGE"}}},
        {"metadata": {"name": "c"}, "spec": {"containers": None, "nodeName": None}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "d"}},
        {"spec": {}},
    ]
    keeper = Keeper(kinds.KINDS["Pod"], "v1")
    text = json.dumps({"kind": "PodList", "apiVersion": "v1", "items": pods}).replace('"LARGE"', "1e400")
    found, _ = keeper.page(text.encode())
    assert [json.loads(each)["metadata"]["name"] for each in found] == ["c"]
    assert keeper.problems == [
        "Pod x/a: left out: spec.containers: got 'none', expected a list",
        "Pod x/b: left out: spec.overhead[...]: number out of range, expected one that fits 64 bits",
        "Secret: left out: expected a Pod",
        "items[4]: Pod default/(no name): left out: metadata: missing, expected an object",
    ]
    whole = Keeper(kinds.KINDS["Pod"], "v1", redact=False)
    assert len(whole.page(json.dumps({"kind": "PodList", "items": [*pods[:3], 7, {"metadata": 3}]}).encode())[0]) == 3
    assert whole.problems == ["Pod: left out: not an object with metadata"] * 2
