"""solve -f manifests, with the real engine."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from kubestow import cli
from kubestow.models.snapshot.snapshot import load

ROOT = Path(cli.__file__).parent
CLUSTER, PAIR = str(ROOT / "instances/gang-mutual.yaml"), str(ROOT / "instances/gang-mutual-workload.yaml")


def run(*arguments: str, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(cli.main, list(arguments), input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_placement_and_manifests_are_of_one_search(tmp_path: Path) -> None:
    placement, written = tmp_path / "placement.json", tmp_path / "gated.yaml"
    result = run("solve", CLUSTER, "-w", PAIR, "-f", f"json={placement}", "-f", f"manifests={written}", "--gates", "-q")
    assert (result.exit_code, result.stdout) == (0, "")
    assert (
        result.stderr == "note: the gate kubestow.dev/placement holds these pods and later ones until `kubestow apply --serve` removes it\n"
    )
    assignments = json.loads(placement.read_text())["assignments"]
    for name, document in zip("ab", filter(None, yaml.safe_load_all(written.read_text())), strict=True):
        spec = document["spec"]["template"]["spec"]
        terms = spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        nodes = {term["preference"]["matchFields"][0]["values"][0] for term in terms}
        assert nodes == {a["node"] for a in assignments if a["pod"].startswith(f"default/{name}-")}
        assert spec["schedulingGates"] == [{"name": "kubestow.dev/placement"}]
        assert spec["affinity"]["podAffinity"]
    assert len(load([str(written)], manifests=True).workloads["Deployment"]) == 2


def test_manifests_come_from_a_pipe_and_go_to_one(tmp_path: Path) -> None:
    piped = run("solve", CLUSTER, "-w", "-", "-f", "manifests", "-q", stdin=Path(PAIR).read_text())
    assert piped.exit_code == 0
    assert piped.stdout == run("solve", CLUSTER, "-w", PAIR, "-f", "manifests", "-q").stdout
    assert "# Source: own." in piped.stdout


def test_what_has_no_node_is_named_and_is_exit_3() -> None:
    result = run("solve", CLUSTER, "-w", PAIR, "-f", "manifests", "-q", "--remove-node", "b2")
    assert result.exit_code == 2
    cluster = "\n---\n".join(d for d in Path(CLUSTER).read_text().split("\n---\n") if not re.search("name: (a2|b1|b2|c2),", d))
    result = run("solve", "-", "-w", PAIR, "-f", "manifests", "-q", stdin=cluster)
    assert result.exit_code == 3
    assert "note: Deployment default/a: the placement has no node for 3 of 3 pods\n" in result.stderr
    assert "preferredDuring" not in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["-f", "manifests"],
        ["-w", PAIR, "--gates"],
        ["-w", PAIR, "-f", "json", "--gates"],
        ["-w", PAIR, "-f", "manifests", "--from-scratch"],
        ["-w", PAIR, "-f", "manifests", "--replicas", "a=1"],
        ["-f", "manifests", "--rollout", "a"],
        ["-w", PAIR, "-f", "manifests", "-f", "kubectl=k"],
    ],
)
def test_what_does_not_go_with_manifests_is_wrong_usage(arguments: list[str]) -> None:
    result = run("solve", CLUSTER, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
