"""``check`` of manifests that change nothing, little, or everything, after inputs on which it once said the wrong thing."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kubestow import cli
from kubestow.live.redact import Keeper
from kubestow.models.kube import kinds
from tests.objects import Object, node, pod
from tests.tiers import sampled

FIELD = Path(__file__).parent / "unchanged"


def check(*arguments: object) -> tuple[int, Any]:
    result = CliRunner().invoke(cli.main, ["check", *map(str, arguments), "-f", "json", "-q"])
    assert result.stdout, result.stderr
    return result.exit_code, json.loads(result.stdout)


def one(*arguments: object) -> tuple[str, str, int, int]:
    """Return the verdicts of ``check`` on the only workload: change, fit, placed and requested pods."""
    _, document = check(*arguments)
    (fit,) = document["workloads"]
    return fit["change"], fit["fit"], fit["placed"], fit["replicas"]


@pytest.mark.parametrize(
    ("manifest", "cluster", "expected"),
    [
        ("annotation-unchanged.yaml", "cluster.json", ("unchanged", "fits", 6, 6)),
        ("unchanged.yaml", "cluster.json", ("unchanged", "fits", 6, 6)),
        ("job-unchanged.yaml", "job-cluster.yaml", ("unchanged", "fits", 1, 1)),
        ("ephemeral-unchanged.yaml", "ephemeral-cluster.yaml", ("unchanged", "fits", 1, 1)),
        ("scaled-with-annotation.json", "quota-cluster.json", ("scaled", "does not fit", 4, 6)),
    ],
)
def test_inputs_from_the_field(manifest: str, cluster: str, expected: tuple[str, str, int, int]) -> None:
    assert one(FIELD / manifest, "--cluster", FIELD / cluster) == expected


def test_a_capture_without_digests_says_that_annotations_are_not_known() -> None:
    _, document = check(FIELD / "annotation-unchanged.yaml", "--cluster", FIELD / "cluster.json")
    assert document["notes"] == [
        "the snapshot lacks annotations, images, environment, commands, probes and other fields that placement does not read of "
        "Deployment ck/a: changes there are not detected"
    ]


# --- ten more of the same kind -------------------------------------------------------------------------------------------

LABELS = {"app": "a"}
CLAIM: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def made(kind: str, *, annotations: dict[str, str] | None = None, labels: Object | None = None, **spec: Any) -> Object:
    """A workload ck/a of one pod, as its manifest has it."""
    container = {"name": "c", "image": "x:1", "resources": {"requests": {"cpu": "100m", "memory": "1Mi"}}}
    metadata: Object = {"labels": labels or LABELS} | ({} if annotations is None else {"annotations": annotations})
    template: Object = {"metadata": metadata, "spec": {"containers": [container], **spec}}
    group = "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    body: Object = {"template": template}
    if kind == "Job":
        template["spec"].setdefault("restartPolicy", "Never")
    else:
        body["selector"] = {"matchLabels": LABELS}
    if kind == "StatefulSet":
        body["serviceName"] = "a"
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "a", "namespace": "ck"}, "spec": body}


def stored(obj: Object, **spec: Any) -> Object:
    """A manifest as an API server has stored it: fields of the pod spec that it adds are ``spec``."""
    found = copy.deepcopy(obj)
    found["metadata"] |= {"uid": "u1", "resourceVersion": "5"}
    found["status"] = {"replicas": 1, "observedGeneration": 1}
    template = found["spec"]["template"]
    template["spec"] = {
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        **template["spec"],
        **spec,
    }
    if obj["kind"] == "Job":
        template["metadata"]["labels"] = {**template["metadata"]["labels"], "controller-uid": "u1", "job-name": "a"}
        found["spec"] |= {"parallelism": 1, "completions": 1, "selector": {"matchLabels": {"controller-uid": "u1"}}}
    return found


def captured(obj: Object) -> Object:
    kind = kinds.find(obj["apiVersion"], obj["kind"])
    assert kind is not None
    (found,) = Keeper(kind, obj["apiVersion"]).single(json.dumps(obj).encode())
    result: Object = json.loads(found)
    return result


def with_metadata(value: Any) -> Object:
    claim = {"spec": CLAIM} | ({} if value is None else {"metadata": value})
    return made("StatefulSet", volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": claim}}])


RESTARTED = {"kubectl.kubernetes.io/restartedAt": "2026-11-01T00:00:00Z"}
#: The manifest, the object of the cluster, and what applying the one does to the other.
TEN: dict[str, tuple[Object, Object, str]] = {
    "annotations of a DaemonSet": (
        made("DaemonSet", annotations={"a": "1"}), stored(made("DaemonSet", annotations={"a": "1"})), "unchanged",
    ),
    "an annotation of another value": (
        made("DaemonSet", annotations={"a": "2"}), stored(made("DaemonSet", annotations={"a": "1"})), "rolling update",
    ),
    "a first annotation": (made("StatefulSet", annotations={"a": "1"}), stored(made("StatefulSet")), "rolling update"),
    "no annotations, as {}": (made("Deployment", annotations={}), stored(made("Deployment")), "unchanged"),
    "restarted since": (made("Deployment"), stored(made("Deployment", annotations=RESTARTED)), "unchanged"),
    "a Job with its annotations": (made("Job", annotations={"a": "1"}), stored(made("Job", annotations={"a": "1"})), "unchanged"),
    "a Job of another label": (made("Job", labels={"app": "b"}), stored(made("Job")), "changed"),
    "empty metadata of a claim": (with_metadata({"creationTimestamp": None}), stored(with_metadata(None)), "unchanged"),
    "labels of a claim": (with_metadata({"labels": {"a": "b"}}), stored(with_metadata({})), "rolling update"),
    "empty fields": (
        made("Deployment", nodeSelector={}, affinity={}, tolerations=[], hostNetwork=False, volumes=[{"name": "s"}]),
        stored(made("Deployment"), volumes=[{"name": "s", "emptyDir": {}}]),
        "unchanged",
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", ["whole", "captured"])
@pytest.mark.parametrize("name", sampled(list(TEN), every=3))
def test_ten_more(name: str, form: str, tmp_path: Path) -> None:
    manifest, there, expected = TEN[name]
    owner = f"{there['kind']}/a" if there["kind"] != "Deployment" else "ReplicaSet/a-1"
    running = pod("a-0", namespace="ck", labels=LABELS, cpu="100m", memory="1Mi", node_name="n1", owner=owner)
    items = [node("n1"), there if form == "whole" else captured(there), running]
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(items), encoding="utf-8")
    (tmp_path / "manifest.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
    _, document = check(tmp_path / "manifest.yaml", "--cluster", tmp_path / "cluster.yaml")
    (fit,) = document["workloads"]
    assert fit["change"] == expected
    assert fit["fit"] == ("does not fit" if expected == "changed" else "fits")
    lacks = [note for note in document.get("notes", []) if note.startswith("the snapshot lacks images")]
    assert bool(lacks) == (form == "captured" and expected == "unchanged")
