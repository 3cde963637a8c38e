"""Nodes closed by a run of apply count as open when a snapshot is read, with a note."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kubestow.cli import main
from kubestow.live.redact import Keeper
from kubestow.models.kube import kinds
from kubestow.models.kube.closed_nodes import CLOSED_BY, LET_IN, UNSCHEDULABLE, ClosedBy, by_run, closed_by
from kubestow.models.snapshot.snapshot import from_objects, load
from tests import objects

BY = "4f2a 2026-11-22T12:03:00Z"
CORDON = {"key": UNSCHEDULABLE, "effect": "NoSchedule"}
GPU = {"key": "gpu", "effect": "NoSchedule"}
LETS_IN = {"key": LET_IN, "value": "some-uid", "effect": "NoSchedule"}


def closed_node(name: str, by: str = BY, **spec: Any) -> objects.Object:
    node = objects.node(name, **{"unschedulable": True, "taints": [CORDON], **spec})
    node["metadata"]["annotations"] = {CLOSED_BY: by, "kubestow.dev/other": "1"}
    return node


def test_the_mark_says_run_and_time() -> None:
    assert closed_by(BY) == ClosedBy("4f2a", "2026-11-22T12:03:00Z")
    assert str(ClosedBy("4f2a", "2026-11-22T12:03:00Z")) == BY
    assert closed_by(None) is None
    assert closed_by("somebody else's words") == ClosedBy("somebody else's words", "")
    marks = {"n2": ClosedBy("b", "2"), "n1": ClosedBy("b", "1"), "n3": ClosedBy("a", "3")}
    assert by_run(marks) == [("a", "3", ["n3"]), ("b", "1", ["n1", "n2"])]


def test_closed_nodes_are_as_before_the_run_and_other_cordons_stay() -> None:
    found = from_objects(
        [
            closed_node("n3", taints=[GPU, CORDON]),
            closed_node("n1", unschedulable=None, taints=[LETS_IN]),
            closed_node("n2"),
            objects.node("theirs", unschedulable=True, taints=[CORDON]),
            objects.node("free"),
        ]
    )
    as_before = from_objects([objects.node("n3", taints=[GPU]), objects.node("n1"), objects.node("n2")])
    for node in as_before.nodes:
        node.metadata.annotations = {"kubestow.dev/other": "1"}
    assert found.nodes[:3] == as_before.nodes
    assert found.nodes[3] == from_objects([objects.node("theirs", unschedulable=True, taints=[CORDON])]).nodes[0]
    assert found.assumed == ["3 nodes that run 4f2a of kubestow apply closed at 2026-11-22T12:03:00Z are treated as open: n1, n2, n3"]
    assert found.notes == found.assumed
    assert not found.omissions, "--strict refuses none of it"


def test_each_run_has_its_sentence_and_long_lists_are_cut() -> None:
    found = from_objects([*(closed_node(f"n{i}") for i in range(5)), closed_node("other", "77 2026-11-20T10:00:00Z")])
    assert found.assumed == [
        "5 nodes that run 4f2a of kubestow apply closed at 2026-11-22T12:03:00Z are treated as open: n0, n1, n2 and 2 more",
        "a node that run 77 of kubestow apply closed at 2026-11-20T10:00:00Z is treated as open: other",
    ]


def test_a_mark_on_a_node_that_is_open_again_says_nothing() -> None:
    found = from_objects([closed_node("n", unschedulable=False, taints=None)])
    assert not found.assumed
    assert found.nodes[0].metadata.annotations == {"kubestow.dev/other": "1"}


def test_a_stray_taint_keeps_nobody_out() -> None:
    found = from_objects([objects.node("n", unschedulable=True, taints=[LETS_IN, CORDON])])
    spec = found.nodes[0].spec
    assert spec is not None
    assert spec.unschedulable
    assert [taint.key for taint in spec.taints or ()] == [UNSCHEDULABLE]
    assert found.assumed == ["the taint kubestow.dev/let-in of a kubestow apply run is ignored: n"]


def test_what_somebody_wrote_into_the_mark_stays_in_one_line() -> None:
    found = from_objects([closed_node("n", "a\n\x1b[2Jb")])
    assert found.assumed == ["a node that run a\\n\\x1b[2Jb of kubestow apply closed is treated as open: n"]


def test_a_capture_keeps_the_mark_and_reads_as_a_file_of_kubectl_does(tmp_path: Path) -> None:
    nodes = [closed_node("n1"), objects.node("n2")]
    kept, _ = Keeper(kinds.KINDS["Node"], "v1").page(json.dumps({"kind": "NodeList", "apiVersion": "v1", "items": nodes}).encode())
    raw, captured = tmp_path / "nodes.yaml", tmp_path / "captured.json"
    raw.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": nodes}))
    captured.write_bytes(b'{"apiVersion":"v1","kind":"List","items":[' + b",".join(kept) + b"]}")
    one, other = load([str(raw)]), load([str(captured)])
    assert one.nodes[0].spec == other.nodes[0].spec
    assert one.assumed == other.assumed != []
    assert CLOSED_BY in captured.read_text()


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    path = tmp_path / "cluster.json"
    items = [
        closed_node("n1", cpu="2"),
        objects.node("full", cpu="1"),
        objects.pod("there", cpu="1", node_name="full", owner="ReplicaSet/w"),
    ]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*items, objects.pod("waits", cpu="2")]}))
    return str(path)


NOTE = "note: a node that run 4f2a of kubestow apply closed at 2026-11-22T12:03:00Z is treated as open: n1"


def test_all_commands_see_the_same_and_say_so_with_q_too(cluster: str, tmp_path: Path) -> None:
    placed = tmp_path / "placement.json"

    def ran(*arguments: str, code: int = 0) -> Any:
        result = CliRunner().invoke(main, [arguments[0], cluster, *arguments[1:], "-q"])
        assert result.exit_code == code, result.output
        assert NOTE in result.stderr.splitlines()
        return result

    document = json.loads(ran("solve", "-f", "json").stdout)
    placed.write_text(json.dumps(document))
    assert [(each["pod"], each["node"]) for each in document["assignments"]] == [("default/waits", "n1")]
    assert NOTE.removeprefix("note: ") in document["notes"]
    assert NOTE.removeprefix("note: ") in json.loads(ran("verify", "--result", str(placed), "-f", "json").stdout)["notes"]
    plan = json.loads(ran("rebalance", "--goal", "admit", "-f", "json").stdout)
    assert NOTE.removeprefix("note: ") in plan["notes"]
    assert plan["status"] == "optimal"
    ran("audit", "-f", "json")
    ran("explain", "--pod", "default/waits", "-f", "json")
    assert NOTE.removeprefix("note: ") in json.loads(ran("nodes", "-f", "json").stdout)["notes"]
    ran("solve", "--strict")
