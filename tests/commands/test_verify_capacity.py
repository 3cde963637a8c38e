"""``verify`` and ``report`` take documents about capacity as the commands print them, and report the faults of others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from tests.checker.capacity.originals import ZONE, deployment, web
from tests.objects import node, pod

Run = Callable[..., Result]
CATALOGUE = {
    "apiVersion": "kubestow.dev/v1alpha1", "kind": "Catalogue",
    "shapes": [{"name": "small", "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}, "zones": ["a"], "price": 0.2}],
}  # fmt: skip
COMMANDS = {
    "Fit": "fit cluster.json -w more.json",
    "Sizing": "size cluster.json --catalogue catalogue.json --time-limit 10",
    "Survival": "survive cluster.json --fail node --no-remedy",
    "Upgrade": "upgrade cluster.json --pool pool=x",
}


def _list(objects: list[Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster, a manifest and a catalogue, and the document of each command."""
    at = tmp_path_factory.mktemp("capacity")
    nodes = [node(f"n{i}", cpu="4", labels={"pool": "x", ZONE: "a"}) for i in range(3)]
    (at / "cluster.json").write_text(_list([*nodes, *web(3, 3), pod("waits", cpu="3800m", owner="ReplicaSet/waits")]))
    (at / "more.json").write_text(_list([deployment("more", "1")]))
    (at / "catalogue.json").write_text(json.dumps(CATALOGUE))
    for kind, command in COMMANDS.items():
        words = [str(at / word) if word.endswith(".json") else word for word in command.split()]
        done = CliRunner().invoke(cli.main, [*words, "-q", "-f", "json", "-o", str(at / f"{kind}.json")])
        assert done.exit_code == 0, (kind, done.output)
    return at


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(folder)
    return lambda command, *words: CliRunner().invoke(cli.main, [*command.split(), *words])


def _again(kind: str) -> str:
    return " -w more.json" if kind == "Fit" else ""


@pytest.mark.parametrize("kind", COMMANDS)
def test_what_a_command_prints_is_valid(run: Run, kind: str) -> None:
    done = run(f"verify cluster.json --result {kind}.json{_again(kind)} -f json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["valid"]
    assert answer["notChecked"]
    told = {
        "Fit": "manifests are added: Deployment default/more",
        "Sizing": "nodes are added",
        "Survival": "what fails is any 1 of the nodes at once",
        "Upgrade": "the nodes of pool=x are upgraded; 0 may be missing and 1 too many at once",
    }
    assert told[kind] in answer["says"]


@pytest.mark.parametrize("kind", COMMANDS)
def test_what_was_changed_is_not(run: Run, folder: Path, kind: str) -> None:
    document = json.loads((folder / f"{kind}.json").read_text())
    {
        "Fit": lambda: document.update(units=document["units"] + 1),
        "Sizing": lambda: document["cost"].update(value=0.1),
        "Survival": lambda: document["outcomes"][0].update(displaced=7),
        "Upgrade": lambda: document["waves"][0]["moves"].pop(),
    }[kind]()
    (folder / "changed.json").write_text(json.dumps(document))
    done = run(f"verify cluster.json --result changed.json{_again(kind)} -f table")
    assert done.exit_code == 4, done.output
    assert "violation" in done.stdout
    done = run(f"report cluster.json --result changed.json{_again(kind)} -o changed.html")
    assert done.exit_code == 4, done.output
    assert "the result is not valid" in done.stderr


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_page_is_made_of_it(run: Run, folder: Path, kind: str) -> None:
    done = run(f"report cluster.json --result {kind}.json{_again(kind)} -q -o {kind}.html")
    assert (done.exit_code, done.output) == (0, "")
    assert f'"capacity":{{"kind":"{kind}"' in (folder / f"{kind}.html").read_text()


def test_manifests_are_given_again_or_not_at_all(run: Run) -> None:
    done = run("verify cluster.json --result Fit.json")
    assert (done.exit_code, done.stderr) == (
        1, "kubestow: the result was made with manifests (Deployment default/more): give the same files with -w\n"
    )  # fmt: skip
    assert run("verify cluster.json --result Survival.json -w more.json").exit_code == 1
    done = run("verify cluster.json --result Upgrade.json -w more.json")
    assert done.exit_code == 2
    assert "an Upgrade is checked without manifests (-w)" in done.stderr


def test_only_what_can_be_carried_out_is(run: Run) -> None:
    done = run("verify cluster.json --result Fit.json -w more.json --journal j.jsonl")
    assert done.exit_code == 2
    assert "not a Fit" in done.stderr
    done = run("apply cluster.json --result Survival.json --dry-run")
    assert done.exit_code == 1
    assert done.stderr.endswith("Survival.json: kind: expected Placement or RebalancePlan, found Survival\n")
