"""Any input gives a snapshot, or an InputError with one line per problem, within a short time."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubestow.models.kube import kinds
from kubestow.models.kube.feature_gates import DEFAULT as GATES
from kubestow.models.kube.pod_requests import allocatable, pod_request
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_objects, load
from tests.tiers import examples

Object = dict[str, Any]

FUZZ = settings(examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

REQUIREMENT = {"key": "k", "operator": "In", "values": ["v"]}
SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [REQUIREMENT]}
TERM = {"topologyKey": "zone", "labelSelector": SELECTOR, "namespaces": ["x"], "namespaceSelector": {}, "matchLabelKeys": ["a"]}
REQUIRED, PREFERRED = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
POD_SPEC: Object = {
    "nodeName": "n", "nodeSelector": {"a": "b"}, "priorityClassName": "gold", "hostNetwork": True, "overhead": {"cpu": "10m"},
    "containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 81, "protocol": "TCP", "hostIP": "::"}],
                    "resources": {"requests": {"cpu": "100m", "memory": 1}, "limits": {"cpu": 0.5, "memory": "1Gi"}}}],
    "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"limits": {"cpu": "1"}}}],
    "resources": {"limits": {"cpu": "2"}}, "schedulingGates": [{"name": "g"}],
    "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [REQUIREMENT], "matchFields": [REQUIREMENT]}]},
                         PREFERRED: [{"weight": 1, "preference": {"matchExpressions": [REQUIREMENT]}}]},
        "podAffinity": {REQUIRED: [TERM]},
        "podAntiAffinity": {PREFERRED: [{"weight": 5, "podAffinityTerm": TERM}]},
    },
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR}],
    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "x"}},
                {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}],
}  # fmt: skip
CAPACITY = {"cpu": "4", "memory": "8Gi", "pods": "110"}
METADATA: Object = {"name": "x", "namespace": "ns", "labels": {"a": "b"}, "annotations": {"kubestow.dev/x": "y"}}
TAINT = {"key": "a", "effect": "NoSchedule"}
RESULT = {"request": "r", "driver": "d", "pool": "p", "device": "x"}
REQUEST = {"name": "r", "exactly": {"deviceClassName": "c", "count": 1}}
CLAIM = {"devices": {"requests": [REQUEST], "constraints": [{"matchAttribute": "a"}]}}
SPECS: dict[str, Object] = {
    "Pod": {"spec": POD_SPEC, "status": {"phase": "Running", "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "1"}}]}},
    "Node": {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}, "status": {"capacity": CAPACITY, "allocatable": CAPACITY}},
    "PriorityClass": {"value": 10, "globalDefault": False},
    "PodDisruptionBudget": {"spec": {"selector": SELECTOR, "minAvailable": "50%"}},
    "PersistentVolume": {"spec": {"capacity": {"storage": "1Gi"}, "claimRef": {"name": "x"}, "csi": {"driver": "d", "volumeHandle": "h"}}},
    "PersistentVolumeClaim": {
        "spec": {"resources": {"requests": {"storage": "1Gi"}}, "selector": SELECTOR, "accessModes": ["ReadWriteOnce"]}
    },
    "StorageClass": {"provisioner": "p", "allowedTopologies": [{"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}]},
    "CSINode": {"spec": {"drivers": [{"name": "d", "allocatable": {"count": 3}}]}},
    "CSIDriver": {"spec": {"preventPodSchedulingIfMissing": True}},
    "ResourceSlice": {
        "spec": {
            "driver": "d",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "nodeName": "n",
            "devices": [{"name": "x", "attributes": {"a": {"int": 1}}, "capacity": {"m": {"value": "1Gi"}}, "taints": [TAINT]}],
            "sharedCounters": [{"name": "s", "counters": {"c": {"value": "1"}}}],
        }
    },
    "DeviceClass": {"spec": {"selectors": [{"cel": {"expression": "true"}}]}},
    "DeviceTaintRule": {"spec": {"taint": TAINT, "deviceSelector": {"driver": "d"}}},
    "ResourceClaim": {"spec": CLAIM, "status": {"allocation": {"devices": {"results": [RESULT]}, "nodeSelector": {}}}},
    "ResourceClaimTemplate": {"spec": {"spec": CLAIM}},
    "NodeResourceTopology": {
        "zones": [
            {"name": "node-0", "type": "Node", "costs": [{"name": "a", "value": 1}], "resources": [{"name": "cpu", "available": "1"}]}
        ]
    },
    "Service": {"spec": {"selector": {"a": "b"}}},
    "PodGroup": {"spec": {"minMember": 2}},
    "CronJob": {"spec": {"jobTemplate": {"spec": {"template": {"spec": POD_SPEC}}}}},
    "PodTemplate": {"template": {"spec": POD_SPEC}},
    "ReplicationController": {"spec": {"selector": {"a": "b"}, "template": {"spec": POD_SPEC}}},
    "StatefulSet": {"spec": {"replicas": 2, "selector": SELECTOR, "template": {"spec": POD_SPEC}, "updateStrategy": {"rollingUpdate": {}}}},
    "Job": {"spec": {"parallelism": 1, "template": {"spec": POD_SPEC}}},
}


def version(kind: str) -> str:
    group = min(kinds.KINDS[kind].groups)
    return f"{group}/v1" if group else "v1"


def sample() -> list[Object]:
    made = [{"apiVersion": version(kind), "kind": kind, "metadata": METADATA, **fields} for kind, fields in SPECS.items()]
    gold = {"apiVersion": version("PriorityClass"), "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 5}
    return copy.deepcopy([*made, gold])


def spots(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from spots(value[key], (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from spots(item, (*path, index))


SPOTS = [path for path in spots(sample()) if path]
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**31, 2**63, 2**64, -(2**70), 10**400, 0, -1]),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["12Q", "1e400", "9Ei", "\0", "\n", "a" * 300, "\ud800", "Always", "Exists", "Gt", "50%", "١٢%", "100n"]),
    st.sampled_from([[], {}, [None], [[]], {"": None}, {"a": {"b": {"c": []}}}, [{}], {"cpu": "x"}, {"cpu": None}]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
        max_leaves=8,
    ),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def check(error: InputError) -> None:
    assert error.problems
    for line in error.problems:
        assert line.isprintable()
        line.encode()


def use(snapshot: Snapshot) -> None:
    """Use the quantities of accepted input: they are read without a further check."""
    for pod in snapshot.pods:
        pod_request(pod, GATES)
    for node in snapshot.nodes:
        allocatable(node.status.allocatable if node.status else None)


def attempt(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    try:
        snapshot = load([str(path)])
    except InputError as error:
        check(error)
    else:
        use(snapshot)


def mutated(changes: list[tuple[tuple[Any, ...], Any]]) -> list[Object]:
    objects: Any = sample()
    for path, value in changes:
        into = objects
        try:
            for step in path[:-1]:
                into = into[step]
            into[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took this place away
    return list(objects)


MUTATIONS = st.lists(st.tuples(st.sampled_from(SPOTS), ODD), min_size=1, max_size=3).map(mutated)


def test_the_sample_itself_is_good(folder: Path) -> None:
    path = folder / "good.json"
    path.write_text(json.dumps(sample()))
    assert sum(load([str(path)]).counts().values()) == len(sample())


@pytest.mark.full
@FUZZ
@given(objects=MUTATIONS, validate=st.booleans())
def test_mutated_objects(objects: list[Object], validate: bool) -> None:
    try:
        snapshot = from_objects(objects, validate=validate)
    except InputError as error:
        check(error)
    else:
        if validate:
            use(snapshot)


@pytest.mark.full
@FUZZ
@given(objects=MUTATIONS)
def test_mutated_json(folder: Path, objects: list[Object]) -> None:
    attempt(folder / "m.json", json.dumps(objects).encode())


def outcome(read: Callable[[], Snapshot]) -> object:
    try:
        return read().pods
    except InputError as error:
        return len(error.problems)


@pytest.mark.full
@FUZZ
@given(objects=MUTATIONS)
def test_json_and_plain_objects_are_judged_alike(folder: Path, objects: list[Object]) -> None:
    """Up to what JSON cannot say (NaN) or refuses as text (half surrogates)."""
    try:
        text = json.dumps(objects, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        return
    path = folder / "same.json"
    path.write_bytes(text)
    assert outcome(lambda: load([str(path)])) == outcome(lambda: from_objects(json.loads(text)))


@pytest.mark.full
@settings(FUZZ, max_examples=examples(60).max_examples)  # writing YAML takes its time
@given(objects=MUTATIONS, flow=st.sampled_from([None, False]))
def test_mutated_yaml(folder: Path, objects: list[Object], flow: bool | None) -> None:
    attempt(folder / "m.yaml", yaml.safe_dump_all(objects, default_flow_style=flow).encode("utf-8", "surrogatepass"))


TEXTS = [json.dumps(sample(), indent=1).encode(), yaml.safe_dump_all(sample()).encode(), gzip.compress(json.dumps(sample()).encode())]


BYTES = st.binary(max_size=4) | st.sampled_from([b"{", b"]", b'"', b"\n", b": ", b"&a ", b"*a", b"\0"])
PATCHES = st.lists(st.tuples(st.floats(0, 1), BYTES), max_size=4)


@FUZZ
@given(content=st.sampled_from(TEXTS), cut=st.floats(0, 1), patches=PATCHES)
def test_damaged_files(folder: Path, content: bytes, cut: float, patches: list[tuple[float, bytes]]) -> None:
    for place, patch in patches:
        at = int(place * len(content))
        content = content[:at] + patch + content[at + len(patch) :]
    attempt(folder / "d.yaml", content[: max(1, int(cut * len(content)))] if cut > 0.1 else content)


@FUZZ
@given(content=st.binary(max_size=200) | st.text("{}[]\",:0e-. \n&*!<>|%@`'#ab\t", max_size=80).map(str.encode))
def test_random_bytes(folder: Path, content: bytes) -> None:
    attempt(folder / "r.json", content)


@pytest.mark.parametrize("suffix", ["json", "yaml"])
@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"kind":"List","items":', '{"kind":"List","items":[', '{"kind":"Pod","metadata":'])
def test_deep_nesting(folder: Path, opening: str, suffix: str) -> None:
    closing = "".join({"[": "]", "{": "}"}[c] for c in reversed(opening) if c in "[{")
    for text in (opening * 50_000, opening * 50_000 + "1" + closing * 50_000, opening * 300 + "1" + closing * 300):
        attempt(folder / f"deep.{suffix}", text.encode())
