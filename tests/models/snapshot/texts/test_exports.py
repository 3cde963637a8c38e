"""Dumps and exports of other tools are read; other files are refused with the command that prints objects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kubestow.models.snapshot.snapshot import InputError, load
from kubestow.report.documents import yaml_text
from tests.models.snapshot.texts.test_bundles import listed
from tests.objects import node, pod

NODES = listed("NodeList", node("n"), bare=True)
PODS = listed("PodList", pod("p"), pod("q", node_name="n"), bare=True)
LOG = '==== START logs for container c of pod default/p ====\n{"kind": "Pod"}\nhello\n==== END logs for container c of pod default/p ====\n'


@pytest.mark.parametrize("indent", [None, 1])
def test_a_dump_on_standard_output_is_read_without_its_logs(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "dump.txt"
    events = listed("EventList")
    parts = [json.dumps(each, indent=indent) + "\n" for each in (NODES, events, PODS)]
    path.write_text(parts[0] + parts[1] + parts[2] + LOG + LOG.replace("/p ", "/q "))
    found = load([str(path)])
    assert ([each.metadata.name for each in found.nodes], len(found.pods)) == (["n"], 2)
    assert found.ignored == load([_written(tmp_path, "plain.json", "".join(parts))]).ignored
    path.write_text("".join(parts) + LOG.partition("==== END")[0] + "==== END logs\n")
    assert len(load([str(path)]).pods) == 2


def _written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


SIMULATED = {
    "pods": PODS["items"],
    "nodes": NODES["items"],
    "pvs": [],
    "pvcs": None,
    "storageClasses": [{"metadata": {"name": "fast"}, "provisioner": "disk.example.com"}],
    "priorityClasses": [],
    "namespaces": [{"metadata": {"name": "default"}}],
}


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_an_export_of_the_simulator_is_read(tmp_path: Path, form: str) -> None:
    text = json.dumps(SIMULATED) if form == "json" else yaml_text.dump(SIMULATED)
    found = load([_written(tmp_path, f"export.{form}", text)])
    assert ([each.metadata.name for each in found.nodes], len(found.pods)) == (["n"], 2)
    assert list(found.storage_classes) == ["fast"]


def test_the_configuration_in_an_export_is_named_as_not_read(tmp_path: Path) -> None:
    configuration = {"kind": "KubeSchedulerConfiguration", "apiVersion": "kubescheduler.config.k8s.io/v1", "profiles": []}
    found = load([_written(tmp_path, "export.json", json.dumps({**SIMULATED, "schedulerConfig": configuration}))])
    assert found.ignored == {"KubeSchedulerConfiguration": 1}
    assert load([_written(tmp_path, "null.json", json.dumps({**SIMULATED, "schedulerConfig": None}))]).ignored == {}


def test_an_object_with_other_fields_is_no_export(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="kind: missing"):
        load([_written(tmp_path, "other.json", json.dumps({**SIMULATED, "extra": 1}))])
    with pytest.raises(InputError, match=r"pods\[0\]|items\[0\]"):
        load([_written(tmp_path, "bad.json", json.dumps({**SIMULATED, "pods": [3]}))])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"NAME   STATUS   ROLES    AGE   VERSION\nn1     Ready    <none>   1d    v1.35.0\n", "is a table of kubectl get, "),
        (
            b"NAMESPACE   NAME   READY   STATUS    RESTARTS   AGE\na  b  1/1  Running\n",
            "(kubectl get KIND -A -o json prints objects)",
        ),
        (b"Name:               n1\nRoles:              <none>\nLabels: a=b\n", "is the output of kubectl describe, "),
        (b"<!DOCTYPE html>\n<html></html>", "is an HTML page, "),
        (b"<?xml version='1.0'?>\n<a/>", "is XML, "),
        (b"\x28\xb5\x2f\xfd rest of it", "is compressed with zstd, "),
        (b"7z\xbc\xaf\x27\x1c rest", "is a 7z archive, "),
        (b"Rar!\x1a\x07\x01\x00", "is a RAR archive, "),
        (b"\x01\x02\x03\x04" * 4 + b"\xed\xda\x0c\xed\x02\x00\x00\x00", "is a snapshot of etcd, "),
        (b"%PDF-1.7\n", "is a PDF document, "),
        (b"\x7fELF\x02\x01\x01", "is a program, "),
        (b"text \x00\x01\x02 and so on", "is a binary file, "),
    ],
)
def test_other_files_are_named_with_a_way_to_objects(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_bytes(data)
    for manifests in (False, True):
        with pytest.raises(InputError) as raised:
            load([str(path)], manifests=manifests)
        (line,) = str(raised.value).splitlines()
        assert message in line
        assert "expected JSON or YAML of Kubernetes objects" in line
