"""Examples for missing options fit the snapshot: the command runs with them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from kubestow.commands.naming import examples
from tests.commands.test_bad_input import write
from tests.objects import node, pod

_ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    nodes = [node(f"n{i}", cpu="4", labels={_ZONE: f"z{i}", "example.com/nodepool": ("old", "new")[i % 2]}) for i in range(4)]
    return write(tmp_path / "c.json", *nodes, pod("web", cpu="1"))


def run(*words: str) -> Result:
    return CliRunner().invoke(cli.main, list(words), catch_exceptions=False)


@pytest.mark.parametrize(
    ("words", "said", "chosen"),
    [
        ("survive", "Missing option '--fail'.", "--fail zone (zones z0, z1, z2, ...), or node"),
        ("survive --fail", "Option '--fail' requires an argument.", "--fail zone (zones z0, z1, z2, ...), or node"),
        ("upgrade", "Missing option '--pool'.", "--pool example.com/nodepool=old (also new)"),
        (
            "rebalance",
            "nothing to plan for: give a --goal, or nodes to --drain.",
            "--goal admit, which makes room for 1 pending pod",
        ),
        ("size", "Missing option '--catalogue'.", "--catalogue FILE, a file with {shapes: [{name: small, "),
        ("solve --buy 1:small@z0", "--buy requires a catalogue of nodes, given with --catalogue.", "--catalogue FILE, a file with {"),
    ],
)
def test_the_example_works(words: str, said: str, chosen: str, snapshot: Path, tmp_path: Path) -> None:
    command, *more = words.split()
    refused = run(command, str(snapshot), *more)
    line = refused.stderr.splitlines()[-1]
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert line.startswith(f"Error: {said}  For example: {chosen}")
    option, value = re.findall(r"For example: (--\w+) (\S+)", line)[0]
    if option == "--catalogue":
        (tmp_path / "shapes.yaml").write_text(line.partition("a file with ")[2])
        value = str(tmp_path / "shapes.yaml")
    given = [word for word in more if word != option]
    assert run(command, str(snapshot), *given, option, value.rstrip(",")).exit_code in (0, 3)


def test_a_snapshot_without_zones_and_pools_has_plain_examples(tmp_path: Path) -> None:
    file = str(write(tmp_path / "c.json", node("n1"), pod("web", node_name="n1")))
    assert examples.example("--fail", [file]) == "  For example: --fail node (each node of the snapshot)"
    assert examples.example("--pool", [file]) == "  For example: --pool kubernetes.io/hostname=n1"
    assert examples.example("--goal", [file]).startswith("  For example: --goal consolidate, which frees nodes")
    assert examples.example("--fail", ["none.json", "-", str(tmp_path)]) == "  For example: --fail node (each node of the snapshot)"
    assert examples.example("--workers", [file]) == ""


@pytest.mark.parametrize("word", ["app.yaml", "-", "./app"])
def test_a_file_after_f_is_no_format(word: str, snapshot: Path) -> None:
    line = run("explain", str(snapshot), "-f", word).stderr.splitlines()[-1]
    assert line.endswith(f"{word!r} is a file, and -f chooses the format: table, wide, csv, json, yaml; -w {word} adds manifests")
    assert "-w" not in run("nodes", str(snapshot), "-f", word).stderr
