"""Volumes that pods wait for, as the commands say it: claims that nobody binds, and volumes that another node has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from kubestow import cli
from tests.objects import Object, node, pod

FAST = ("--strategy", "none")
CLASS: Object = {
    "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disk", "uid": "u"}, "provisioner": "disk.example.com",
    "volumeBindingMode": "WaitForFirstConsumer",
}  # fmt: skip
ASKED: Object = {"accessModes": ["ReadWriteOnce"], "storageClassName": "disk", "resources": {"requests": {"storage": "1Gi"}}}
NEVER = (
    "the spec names a node, so that kube-scheduler does not see the pod and nobody binds claim default/data-mail-0 (WaitForFirstConsumer)"
)


def claim(name: str, volume: str | None = None) -> Object:
    spec = {**ASKED, **({"volumeName": volume} if volume else {})}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def volume(name: str, claimed: str) -> Object:
    spec = {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": "disk",
        "claimRef": {"namespace": "default", "name": claimed}, "csi": {"driver": "disk.example.com", "volumeHandle": name},
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec, "status": {"phase": "Bound"}}


def mounting(name: str, claimed: str, at: str | None, phase: str, cpu: str = "3") -> Object:
    made = pod(name, node_name=at, cpu=cpu, volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": claimed}}])
    return {**made, "status": {"phase": phase}}


def mail(**spec: Any) -> Object:
    template = {"metadata": {"labels": {"app": "mail"}}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    claims = [{"metadata": {"name": "data"}, "spec": ASKED}]
    return {
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "mail", "namespace": "default"},
        "spec": {
            "replicas": 1, "serviceName": "mail", "selector": {"matchLabels": {"app": "mail"}}, "template": template,
            "volumeClaimTemplates": claims,
        },
    }  # fmt: skip


def written(path: Path, *objects: Object) -> str:
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.main, [*arguments], catch_exceptions=False)


@pytest.mark.parametrize("command", [("solve", *FAST), ("explain",)])
def test_a_pod_that_names_its_node_never_gets_its_claim(tmp_path: Path, command: tuple[str, ...]) -> None:
    waiting = [claim("data-mail-0"), mounting("mail-0", "data-mail-0", "n1", "Pending")]
    snapshot = written(tmp_path / "cluster.yaml", node("n1"), node("n2"), CLASS, *waiting)
    found = run(*command, snapshot)
    said = f"pod default/mail-0 counts as running but never starts: {NEVER}"
    assert f"note: {said}" in found.stderr
    assert said in json.loads(found.stdout)["notes"]


@pytest.mark.parametrize("command", [("solve", *FAST), ("explain",)])
def test_a_manifest_that_names_its_node_never_gets_its_claim(tmp_path: Path, command: tuple[str, ...]) -> None:
    snapshot = written(tmp_path / "cluster.yaml", node("n1"), node("n2"), CLASS)
    found = run(*command, snapshot, "-w", written(tmp_path / "mail.yaml", mail(nodeName="n1")))
    assert f"pod default/mail-0 counts as running but never starts: {NEVER}" in json.loads(found.stdout)["notes"]
    fine = run(*command, snapshot, "-w", written(tmp_path / "mail.yaml", mail(nodeSelector={"kubernetes.io/hostname": "n1"})))
    assert "never starts" not in fine.stdout + fine.stderr


def test_check_says_that_such_a_manifest_does_not_fit(tmp_path: Path) -> None:
    snapshot = written(tmp_path / "cluster.yaml", node("n1"), node("n2"), CLASS)
    found = run("check", "--cluster", snapshot, written(tmp_path / "mail.yaml", mail(nodeName="n1")))
    (fit,) = json.loads(found.stdout)["workloads"]
    assert (found.exit_code, fit["fit"], fit["placed"]) == (3, "does not fit", 0)
    why = "nobody binds claim default/data-mail-0: kube-scheduler does not see pods that name their node"
    assert fit["cause"] == f"default/mail-0 never starts: {why}"
    fine = written(tmp_path / "fine.yaml", mail(nodeSelector={"kubernetes.io/hostname": "n1"}))
    assert json.loads(run("check", "--cluster", snapshot, fine).stdout)["workloads"][0]["fit"] == "fits"


def test_solve_and_explain_say_where_a_volume_is(tmp_path: Path) -> None:
    """ReadWriteOnce is no rule of the scheduler, which places the pod where it waits."""
    held = [claim("data", "pv"), volume("pv", "data"), mounting("a", "data", "n1", "Running"), mounting("b", "data", None, "Pending")]
    snapshot = written(tmp_path / "cluster.yaml", node("n1"), node("n2"), CLASS, *held)
    found = json.loads(run("solve", snapshot, *FAST).stdout)
    assert [(entry["pod"], entry["node"]) for entry in found["assignments"]] == [("default/b", "n2")]
    said = "volume pv of claim default/data goes to one node at a time, and its pods are on n1, n2: if n1 has it, default/b waits with a "
    assert f"{said}Multi-Attach error, which kube-scheduler does not prevent" in found["notes"]
    told = json.loads(run("explain", snapshot).stdout)["notes"]
    assert told[-1] == (
        "default/b fits on n2, and waits there with a Multi-Attach error: volume pv of claim default/data goes to one node at a time, and "
        "default/a has it on n1"
    )


def test_nothing_is_said_where_the_pods_meet(tmp_path: Path) -> None:
    held = [claim("data", "pv"), volume("pv", "data"), mounting("a", "data", "n1", "Running", "1")]
    snapshot = written(tmp_path / "cluster.yaml", node("n1"), CLASS, *held, mounting("b", "data", None, "Pending", "1"))
    assert not [note for note in json.loads(run("solve", snapshot, *FAST).stdout)["notes"] if "Multi-Attach" in note]
