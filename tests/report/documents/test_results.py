from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
import yaml

from kubestow.models.documents.placement import Assignment, Placement
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.objects import Pod
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_objects
from kubestow.report.documents import results
from kubestow.solver.explain.per_node import PodVerdict
from tests.objects import node, pod


@dataclass(frozen=True)
class Violation:
    pod: str
    node: str
    rule: str
    why: str


VERDICT = PodVerdict("prod/x", ["n1"], {"n2": ["InterPodAffinity", "NodeResourcesFit"], "n3": ["NodeResourcesFit"]}, {})


def test_json_is_indented_in_document_order(placement: Placement) -> None:
    text = results.encode(results.result_document(placement), "json").decode()
    assert text.startswith('{\n  "apiVersion": "kubestow.dev/v1alpha1",\n  "kind": "Placement",\n  "snapshot": {')
    assert text.endswith("}\n")
    assert json.loads(text)["assignments"][1] == {"pod": "prod/web-1", "node": "n1", "order": 1, "gang": None, "containers": []}


@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize("compress", [False, True])
def test_a_written_placement_reads_back(tmp_path: Path, placement: Placement, form: results.Format, compress: bool) -> None:
    placement.assignments.append(Assignment("prod/ünï", "1e3", 3))
    data = results.encode(results.result_document(placement), form)
    path = tmp_path / "result"
    path.write_bytes(gzip.compress(data) if compress else data)
    assert results.read_result(str(path)) == placement


def test_yaml_of_a_placement_is_what_the_json_is(placement: Placement) -> None:
    document = results.result_document(placement)
    assert yaml.safe_load(results.encode(document, "yaml")) == json.loads(results.encode(document, "json"))


def test_explain_documents() -> None:
    counts = {"pod": "prod/x", "feasible": 1, "rejected": {"InterPodAffinity": 1, "NodeResourcesFit": 2}}
    assert results.explain_document([VERDICT], per_node=False) == {"pods": [counts], "kubernetesVersion": "1.36"}
    each = {"pod": "prod/x", "feasible": ["n1"], "rejected": VERDICT.rejected}
    assert results.explain_document([VERDICT], per_node=True) == {"pods": [each], "kubernetesVersion": "1.36"}
    gates = FeatureGates("1.37", (("VolumeLimitScaling", True),))
    for per_node in (False, True):
        said = results.explain_document([VERDICT], per_node=per_node, gates=gates)
        assert (said["kubernetesVersion"], said["featureGates"]) == ("1.37", {"VolumeLimitScaling": True})


def test_violations_document() -> None:
    assert results.violations_document([]) == {"valid": True, "violations": []}
    found = results.violations_document([Violation("prod/x", "n1", "NodePorts", "port 80 is taken")])
    assert found == {"valid": False, "violations": [{"pod": "prod/x", "node": "n1", "rule": "NodePorts", "why": "port 80 is taken"}]}


def test_bindings_come_in_bind_order_without_bound_pods(placement: Placement, snapshot: Snapshot, make_pod: Callable[..., Pod]) -> None:
    snapshot.pods.append(make_pod("stays", node="n1"))
    placement.assignments.append(Assignment("prod/stays", "n3", 3))
    lines = results.bindings(placement, snapshot).decode().splitlines()
    assert [json.loads(line)["metadata"]["name"] for line in lines] == ["web-1", "web-2"]
    assert json.loads(lines[0]) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web-1", "namespace": "prod"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


def test_bindings_name_the_uid_and_leave_to_the_scheduler_what_only_it_can_do(placement: Placement) -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "prod"}, "spec": {}}
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    named = pod("web-1", namespace="prod")
    named["metadata"]["uid"] = "u-1"
    cluster = from_objects([node("n1"), named, pod("web-2", namespace="prod", volumes=volumes), claim])
    assert [json.loads(line)["metadata"] for line in results.bindings(placement, cluster).splitlines()] == [
        {"name": "web-1", "namespace": "prod", "uid": "u-1"}
    ]
    assert results.without_binding(placement, cluster) == [
        "prod/web-2 gets no Binding and is left to the scheduler (planned for n2): its claim data has no volume yet"
    ]


_VALID = (
    "apiVersion: kubestow.dev/v1alpha1\nkind: Placement\nsnapshot: {sha256: a, nodes: 1, pods: 1, pending: 1}\n"
    "engine: exact\nstatus: optimal\nobjective: []\n"
)
_ANY = "Placement, RebalancePlan, Fit, Sizing, Survival or Upgrade"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", f"empty, expected a {_ANY} document"),
        (b" \n", f"empty, expected a {_ANY} document"),
        (b"[]", f"not a {_ANY}: Expected `object`, got `array`"),
        (b"{}", "apiVersion: expected apiVersion 'kubestow.dev/v1alpha1', got null"),
        (b'{"a": 1,,}', "JSON is malformed"),
        (b"a: [1\n", "line 2: "),
        (b"a: \xff\n", ""),
        (b"a: 1\n---\nb: 2\n", f"expected one {_ANY} document, found 2 documents"),
        (b"apiVersion: kubestow.dev/v1alpha1\nkind: Plan\n", f"kind: expected {_ANY}, got 'Plan'"),
        ((_VALID + "assignments: [{pod: a/b, node: 12, order: 1}]").encode(), "assignments[0].node: Expected `str`, got `int`"),
        ((_VALID + "assignments: [{pod: a/b, order: 1}]").encode(), "assignments[0]: Object missing required field `node`"),
        (_VALID.encode(), "Object missing required field `assignments`"),
        (b"[" * 200_000, "nested"),
        (b'{"a":' * 200_000, "nested"),
        (gzip.compress(b"x" * 1000, mtime=0)[:-20], "is damaged"),
        (b"\x1f\x8bxx", "is damaged"),
    ],
)
def test_a_bad_result_file_is_one_problem_that_names_file_and_place(tmp_path: Path, text: bytes, problem: str) -> None:
    path = tmp_path / "result.yaml"
    path.write_bytes(text)
    with pytest.raises(InputError) as caught:
        results.read_result(str(path))
    (line,) = caught.value.problems
    assert line.startswith(f"{path}: ")
    assert problem in line
    assert "\n" not in line


def test_a_missing_result_file_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="absent: cannot be read: No such file or directory"):
        results.read_result(str(tmp_path / "absent"))


def test_flow_style_yaml_is_no_bad_json(tmp_path: Path, placement: Placement) -> None:
    path = tmp_path / "result.yaml"
    path.write_text(str(msgspec.to_builtins(placement)).replace("None", "null"))
    assert results.read_result(str(path)) == placement
