"""Bought nodes as a file: read with the snapshot, it has the same effect as the what-if edits."""

from __future__ import annotations

import json
from pathlib import Path

import yaml
from click.testing import CliRunner

from kubestow import cli
from kubestow.models.catalogue.catalogue import read
from kubestow.models.documents.placement import Edits
from kubestow.models.edits.edits import apply
from kubestow.models.snapshot.snapshot import Snapshot, load
from kubestow.report.documents.bought_nodes import bought_nodes
from tests.commands.test_tables import written
from tests.models.catalogue.test_nodes import daemon, daemon_set, static
from tests.objects import node, pod

_CATALOGUE = Path(__file__).parents[3] / "instances" / "catalogue.yaml"


def edited(cluster: str) -> tuple[Snapshot, list[str]]:
    snapshot = load([cluster])
    shapes = list(read(str(_CATALOGUE)).shapes.values())
    found = apply(snapshot, None, Edits(buy=["2:g2.2xlarge@b", "1:x1.8xlarge@a"], shapes=shapes)).snapshot
    return found, [each.metadata.name or "" for each in found.nodes[len(snapshot.nodes) :]]


def cluster_of(tmp_path: Path) -> str:
    """A cluster whose nodes run a DaemonSet with its object, one without, and a static pod; four pods wait."""
    labels = {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r"}
    tolerant = daemon_set("net", hostNetwork=True, tolerations=[{"operator": "Exists"}], priorityClassName="system-node-critical")
    items = [
        node("n1", cpu="1", labels=labels),
        tolerant,
        daemon("net", "n1", labels={"ds": "net"}),
        daemon("log", "n1"),
        static("proxy", "n1"),
    ]
    return written(tmp_path / "cluster.json", [*items, *(pod(f"p{i}", cpu="5") for i in range(4))])


def test_the_file_beside_the_snapshot_is_the_cluster_as_edited(tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path)
    snapshot, names = edited(cluster)
    file = tmp_path / "nodes.yaml"
    file.write_bytes(bought_nodes(snapshot, names))
    again = load([cluster, str(file)])
    assert again.nodes == snapshot.nodes
    assert again.csi_nodes == snapshot.csi_nodes
    assert sorted(again.pods, key=str) == sorted(snapshot.pods, key=str)
    kinds = [each["kind"] for each in yaml.safe_load_all(file.read_text())]
    assert [kinds.count(kind) for kind in ("Node", "CSINode", "Pod")] == [3, 3, 8]


def test_commands_take_the_file_as_they_take_the_edits(tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path)
    snapshot, names = edited(cluster)
    file = tmp_path / "nodes.yaml"
    file.write_bytes(bought_nodes(snapshot, names))
    bought = ["--catalogue", str(_CATALOGUE), "--buy", "2:g2.2xlarge@b", "--buy", "1:x1.8xlarge@a"]
    found = []
    for arguments in ([cluster, str(file)], [cluster, *bought]):
        result = CliRunner().invoke(cli.main, ["solve", *arguments, "-q", "-f", "json", "--deterministic"])
        assert result.exit_code == 3, result.stderr
        found.append([(a["pod"], a["node"]) for a in json.loads(result.stdout)["assignments"]])
    assert found[0] == found[1]
    assert len(found[0]) == 2  # the DaemonSets leave room for one such pod on each node, and the third has a taint
