"""The capture information of a List, and the effect of its gaps in each command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kubestow.cli import main
from kubestow.models.snapshot.capture_info import Capture
from kubestow.models.snapshot.snapshot import load

SAID = Capture("prod", "2026-11-22T10:00:00Z", "v1.36.2", ("services: may not be read", "jobs.batch: may not be read"))


def _listed(capture: Capture) -> dict[str, Any]:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "labels": {"kubernetes.io/hostname": "n"}},
        "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}},
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}, "spec": {"containers": [{"name": "c"}]}}
    return {"apiVersion": "v1", "kind": "List", "metadata": {"annotations": capture.annotations()}, "items": [node, pod]}


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(_listed(SAID)))
    return str(path)


def test_annotations_of_a_list_are_read_from_json_and_yaml(file: str, tmp_path: Path) -> None:
    same = tmp_path / "same.yaml"
    same.write_text(yaml.safe_dump(_listed(SAID)))
    for path in (file, str(same)):
        found = load([path])
        assert found.capture == SAID
        assert found.omissions == [f"the snapshot lacks something: {text}" for text in SAID.left_out]


def test_other_lists_say_nothing(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    for metadata in ({}, {"resourceVersion": "1"}, {"annotations": {"a": "b"}}, {"annotations": 1}, 3):
        path.write_text(json.dumps(_listed(SAID) | {"metadata": metadata}))
        found = load([str(path)])
        assert (found.capture, found.omissions) == (None, [])


@pytest.mark.parametrize("command", ["solve", "rebalance --goal repair", "explain", "explain --per-node", "audit", "report"])
def test_every_command_says_what_the_snapshot_lacks_and_strict_refuses_it(command: str, file: str, tmp_path: Path) -> None:
    name, *options = command.split()
    out = tmp_path / "out"
    arguments = [name, file, *options, "-o", str(out)] + (["-f", "json"] if name != "report" else [])
    quiet = CliRunner().invoke(main, [*arguments, "-q"])
    assert quiet.exit_code in (0, 4)
    assert "note: the snapshot lacks something: services: may not be read\n" in quiet.stderr
    if name != "report":
        assert f"the snapshot lacks something: {SAID.left_out[1]}" in json.loads(out.read_text())["notes"]
    out.unlink()
    strict = CliRunner().invoke(main, [*arguments, "-q", "--strict"])
    assert strict.exit_code == 4
    assert "not taken into account: the snapshot lacks something: services" in strict.stderr
    assert not out.exists()
