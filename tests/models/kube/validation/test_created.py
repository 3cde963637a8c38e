"""New objects that an API server refuses, compared with answers of a real one.

``api_server.json`` holds objects at random and the fields that kube-apiserver refused of each in a dry run, with its reasons.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from kubestow import cli
from kubestow.models.kube.feature_gates import DEFAULT, FeatureGates, feature_gates
from kubestow.models.kube.validation import created
from kubestow.models.snapshot.snapshot import InputError, from_objects
from kubestow.report.documents import yaml_text
from tests.objects import Object, node

_RECORDED: Final = json.loads(Path(__file__).with_name("api_server.json").read_text(encoding="utf-8"))
_GATES: Final = feature_gates("1.36", {})
#: Rules that hold for stored objects as well, whose messages are kubestow's own.
_OWN_WORDS: Final = (
    "containerPort", "hostPort: Invalid value", "taken", "matchLabelKeys: Forbidden", "operator: Unsupported value", "Duplicate value",
    "topologyKey: Required value", "values: Required value", "`selector` does not match", "must be greater than or equal to aggregate",
)  # fmt: skip


def refusals(*objects: Object, gates: FeatureGates = _GATES) -> list[str]:
    try:
        from_objects(objects, manifests=True, gates=gates)
    except InputError as error:
        return error.problems
    return []


@pytest.mark.parametrize("case", _RECORDED["cases"], ids=lambda case: case["object"]["kind"])
def test_the_verdict_and_reasons_are_those_of_a_real_api_server(case: dict[str, Any]) -> None:
    found = refusals(case["object"])
    assert bool(found) == bool(case["refused"]), found
    for expected in case["refused"]:
        reason = expected.partition(": ")[2]
        if not any(words in expected for words in _OWN_WORDS):
            assert any(reason in problem for problem in found), (expected, found)


def pod(resources: Object | None = None, **spec: Any) -> Object:
    container = {"name": "c", "image": "i", **({"resources": resources} if resources else {}), **spec.pop("container", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container], **spec}}


@pytest.mark.parametrize(("resources", "reason"), [
    ({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}, 'requests: Invalid value: "2": must be less than or equal to cpu limit of 1'),
    ({"requests": {"cpu": "1"}, "limits": {"cpu": "1000m"}}, None),
    ({"requests": {"nvidia.com/gpu": 1}}, "limits: Required value: Limit must be set for non overcommitable resources"),
    ({"limits": {"nvidia.com/gpu": 1}}, None),
    ({"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}},
     "requests: Invalid value: 1: must be equal to nvidia.com/gpu limit of 2"),
    ({"limits": {"nvidia.com/gpu": "0.5"}}, 'limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer'),
    ({"limits": {"nvidia.com/gpu": "1000m"}}, None),
    ({"limits": {"hugepages-2Mi": "4Mi"}}, "resources: Forbidden: HugePages require cpu or memory"),
    ({"limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi"}}, None),
    ({"limits": {"hugepages-2Mi": "3Mi", "memory": "1Gi"}}, "3Mi is not positive integer multiple of hugepages-2Mi"),
    ({"requests": {"gpu": "1"}}, 'requests[gpu]: Invalid value: "gpu": must be a standard resource for containers'),
    ({"requests": {"memory": "128m"}}, None),
])  # fmt: skip
def test_requests_and_limits(resources: Object, reason: str | None) -> None:
    found = refusals(pod(resources))
    assert bool(found) is (reason is not None)
    assert reason is None or any(reason in problem for problem in found), found


@pytest.mark.parametrize(("spec", "reason"), [
    ({"container": {"ports": [{"containerPort": 80, "hostPort": 8080}]}, "hostNetwork": True},
     "ports[0].hostPort: Invalid value: 8080: must match `containerPort` when `hostNetwork` is true"),
    ({"container": {"ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]}},
     'ports[1].hostPort: Duplicate value: "TCP//80"'),
    ({"container": {"ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80, "protocol": "UDP"}]}}, None),
    ({"tolerations": [{"operator": "Equal", "value": "x"}]}, "tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists"),
    ({"tolerations": [{"key": "k", "operator": "Exists", "value": "x"}]}, "value must be empty when `operator` is 'Exists'"),
    ({"tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 5}]}, "effect must be 'NoExecute'"),
    ({"tolerations": [{"operator": "Exists"}]}, None),
    ({"restartPolicy": "Sometimes"}, 'restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"'),
    ({"nodeSelector": {"disk": "ssd!"}}, "nodeSelector: Invalid value: \"ssd!\": a valid label must be an empty string or consist of"),
    ({"container": {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}}, 'volumeMounts[0].name: Not found: "v"'),
])  # fmt: skip
def test_pod_specs(spec: Object, reason: str | None) -> None:
    found = refusals(pod(None, **spec))
    assert bool(found) is (reason is not None)
    assert reason is None or any(reason in problem for problem in found), found


def test_restart_policies_of_containers_by_version() -> None:
    app, init = pod(container={"restartPolicy": "Never"}), pod(initContainers=[{"name": "i", "image": "i", "restartPolicy": "Never"}])
    old = feature_gates("1.34", {})
    assert "may not be set for non-init containers" in refusals(app, gates=old)[0]
    assert 'Unsupported value: "Never": supported values: "Always"' in refusals(init, gates=old)[0]
    assert refusals(app) == refusals(init) == []


def test_label_values_are_refused_beside_other_errors() -> None:
    spec = {"containers": [{"name": "C1", "image": "i", "ports": [{"containerPort": 70000}]}]}
    template = {"metadata": {"labels": {"app": "x y"}}, "spec": spec}
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "Web_App"},
                "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template}}  # fmt: skip
    fields = [problem.split(": ")[2] for problem in refusals(workload)]
    start = "spec.template"
    assert fields == [f"{start}.metadata.labels", f"{start}.spec.containers[0].name", "metadata.name",
                      f"{start}.spec.containers[0].ports[0].containerPort"]  # fmt: skip


def test_what_a_server_has_stored_is_not_judged() -> None:
    stored = pod({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})
    assert from_objects([stored]).pods


@pytest.mark.parametrize("value", [None, [], "x", {}, {"spec": 1}, {"spec": {"containers": 1}}, {"spec": {"containers": [1, None]}},
                                   {"metadata": {"labels": [], "annotations": 3}, "spec": {"tolerations": [{"key": 1, "value": 2}]}},
                                   {"spec": {"containers": [{"resources": {"requests": {"cpu": None, "memory": [1]}}}]}},
                                   {"spec": {"affinity": [], "volumes": {}, "resources": 3, "overhead": [1]}}])  # fmt: skip
@pytest.mark.parametrize("kind", ["Pod", "Deployment", "CronJob", "Node"])
def test_data_of_other_types_does_not_crash(kind: str, value: Any) -> None:
    created.refused(kind, value, DEFAULT)


@pytest.mark.parametrize("command", ["check", "solve"])
@pytest.mark.parametrize("lenient", [False, True])
def test_commands_refuse_with_file_object_and_field(tmp_path: Path, command: str, lenient: bool) -> None:
    cluster, manifest = tmp_path / "cluster.json", tmp_path / "app.yaml"
    cluster.write_text(json.dumps(node("n")))
    manifest.write_text(yaml_text.dump(pod({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})))
    words = ["check", str(manifest), "--cluster", str(cluster)] if command == "check" else ["solve", str(cluster), "-w", str(manifest)]
    result = CliRunner().invoke(cli.main, [*words, "-q", *(["--allow-unknown-fields"] if lenient else [])])
    assert (result.exit_code, result.stdout) == (1, "")
    reason = 'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'
    assert f"kubestow: {manifest}: Pod default/p: {reason}\n" in result.stderr
