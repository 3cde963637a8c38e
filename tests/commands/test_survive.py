"""The command survive, as a user calls it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from kubestow import cli
from kubestow.solver.capacity.survive.survive import survive
from tests.objects import Object, node, pod
from tests.solver.capacity.fit.random_fits import deployment

ZONES = str(Path(cli.__file__).parent / "instances" / "survive-three-zones.yaml")
CATALOGUE = str(Path(cli.__file__).parent / "instances" / "catalogue.yaml")


def written(path: Path, content: object) -> str:
    path.write_text(json.dumps(content))
    return str(path)


def listed(*objects: Object) -> Object:
    return {"kind": "List", "apiVersion": "v1", "items": list(objects)}


def full(cpu: str = "3") -> list[Object]:
    """Two nodes that are full; a third is empty where pods ask for less."""
    nodes = [node(f"n{i}") for i in range(2)]
    return [*nodes, *(pod(f"web-{i}", node_name=f"n{i}", owner="ReplicaSet/web", cpu=cpu) for i in range(2))]


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    return written(tmp_path / "cluster.json", listed(*full()))


@pytest.fixture
def roomy(tmp_path: Path) -> str:
    return written(tmp_path / "roomy.json", listed(*full("1")))


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli.main, ["survive", *arguments], env={"COLUMNS": "200"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def document(*arguments: str) -> Any:
    return json.loads(run(*arguments, "-q", "-f", "json").stdout)


def test_certified(roomy: str) -> None:
    result = run(roomy, "--fail", "node", "-f", "table")
    assert result.exit_code == 0
    assert result.stdout.startswith("Certified: each of 2 nodes may fail, and all its pods come back\n")
    assert result.stderr.startswith("Certified: each of 2 nodes may fail, and all its pods come back; ")
    assert run(roomy, "--fail", "node", "-q").stderr == ""


def test_not_certified_with_a_remedy_that_does(cluster: str) -> None:
    result = run(cluster, "--fail", "node", "-f", "table")
    assert result.exit_code == 3
    assert result.stdout.startswith("Not certified: 2 of 2 nodes may not fail: pods stay pending\n")
    assert "1 more failure is equal to it" in result.stdout
    assert "NodeResourcesFit: " in result.stdout
    (options,) = [line.split() for line in result.stdout.splitlines() if line.strip().startswith("--add-nodes")]
    assert run(cluster, "--fail", "node", *options).exit_code == 0


def test_three_zones_as_their_comment_says() -> None:
    nodes = document(ZONES, "--fail", "node")
    assert [each["failed"] for each in nodes["counterexamples"]] == [["b1"]]
    assert nodes["counterexamples"][0]["pending"] == ["shop/queue-0"]
    assert {fact["rule"] for fact in nodes["counterexamples"][0]["cause"]["facts"]} == {"NodeResourcesFit", "VolumeBinding"}
    assert nodes["remedy"]["addNodes"] == ["1:b2"]
    zones = document(ZONES, "--fail", "zone")
    assert (zones["certified"], "remedy" in zones) == (False, False)
    assert [(each["kind"], each["failures"]) for each in zones["exposed"]] == [("PodDisruptionBudget", 3), ("lost", 1)]
    assert document(ZONES, "--fail", "zone", "--priority", "1000")["certified"]


def test_two_at_once() -> None:
    result = run(ZONES, "--fail", "node", "--at-once", "2", "--priority", "1000", "-f", "wide")
    assert result.exit_code == 0
    assert result.stdout.startswith(
        "Certified: any 2 of the nodes may fail at once (15 ways), and all their pods of priority 1,000 or more"
    )
    assert "by combining single failures)" in result.stdout
    result = run(ZONES, "--fail", "node", "--at-once", "2", "--no-remedy", "-f", "table", "--all")
    assert result.exit_code == 3
    assert result.stdout.startswith("Not certified: 7 of 15 ways in which 2 nodes fail at once leave pods pending\n")


def test_a_catalogue_gives_a_remedy_its_price() -> None:
    remedy = document(ZONES, "--fail", "node", "--catalogue", CATALOGUE)["remedy"]
    assert remedy["cost"] == remedy["bound"] == 0.38  # of spot nodes alone there would be more than half of the CPU
    bought = [word for text in remedy["buy"] for word in ("--buy", text)]
    assert remedy["options"] == bought
    assert run(ZONES, "--fail", "node", "--catalogue", CATALOGUE, *bought).exit_code == 0
    assert "remedy" not in document(ZONES, "--fail", "node", "--no-remedy")


def test_forms_say_the_same(cluster: str) -> None:
    found = json.loads(run(cluster, "--fail", "node", "--deterministic").stdout)
    assert (found["kind"], found["certified"], found["scenarios"]["all"]) == ("Survival", False, 2)
    assert yaml.safe_load(run(cluster, "--fail", "node", "--deterministic", "-f", "yaml").stdout) == found
    rows = list(csv.DictReader(io.StringIO(run(cluster, "--fail", "node", "-f", "csv").stdout)))
    assert [(row["failed"], row["equal_to"], row["outcome"], row["pending"]) for row in rows] == [
        ("n0", "", "pending", "1"),
        ("n1", "n0", "pending", "1"),
    ]
    assert "Failures\n" in run(cluster, "--fail", "node", "-f", "wide").stdout


def test_the_same_bytes_twice() -> None:
    first, second = (run(ZONES, "--fail", "node", "--deterministic", "-f", "json").stdout for _ in range(2))
    assert first == second


def test_what_is_written_is_valid(tmp_path: Path, roomy: str) -> None:
    """With manifests as well: their pods are placed first, and then may be on the node that fails."""
    api = written(tmp_path / "api.json", deployment("api", pod("api", cpu="1", labels={"app": "api"}), 2))
    out = str(tmp_path / "survival.json")
    assert run(roomy, "--fail", "node", "-w", api, "-o", out).exit_code == 0
    found = json.loads(Path(out).read_text())
    assert {each["pod"].split("-")[0] for each in found["placement"]["assignments"]} == {"default/api"}
    assert {each["displaced"] for each in found["outcomes"]} == {2}
    checked = CliRunner().invoke(cli.main, ["verify", roomy, "--result", out, "-w", api, "-q"])
    assert checked.exit_code == 0, checked.output
    found["outcomes"][0]["assignments"][0]["node"] = found["outcomes"][0]["failed"][0]
    Path(out).write_text(json.dumps(found))
    assert CliRunner().invoke(cli.main, ["verify", roomy, "--result", out, "-w", api, "-q"]).exit_code == 4


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        ([], 2, "Missing option '--fail'"),
        (["--fail", "node", "--preemption"], 2, "--preemption requires --priority"),
        (["--fail", ""], 2, "--fail: expected node, zone or the key of a node label"),
        (["--fail", "node", "--at-once", "0"], 2, "--at-once"),
        (["--fail", "zone"], 1, "kubestow: --fail 'zone'"),
        (["--fail", "rack"], 1, "kubestow: --fail 'rack'"),
        (["--fail", "node", "--at-once", "3"], 1, "kubestow: --fail 'node' --at-once 3: the snapshot has 2 nodes"),
        (["--fail", "node", "--catalogue", "nowhere.yaml"], 1, "kubestow: nowhere.yaml"),
        (["--fail", "node", "--buy", "1:x@a"], 2, "--buy requires a catalogue"),
    ],
)
def test_wrong_use_and_bad_input(cluster: str, arguments: list[str], code: int, line: str) -> None:
    result = run(cluster, *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert line in result.stderr


def test_interrupted_with_what_is_certain(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """^C before the first failure is looked at: no failure is decided, and the document says so."""

    def stopped(*arguments: Any, **named: Any) -> Any:
        named["stop"].set()
        return survive(*arguments, **named)

    monkeypatch.setattr("kubestow.solver.capacity.survive.answer.survive", stopped)
    result = run(cluster, "--fail", "node", "-f", "json")
    assert result.exit_code == 130
    found = json.loads(result.stdout)
    assert (found["certified"], found["scenarios"]["open"]) == (False, found["scenarios"]["distinct"])
    assert "are undecided" in result.stderr


def test_with_preemption_no_cause_is_printed_that_ignores_it(tmp_path: Path) -> None:
    objects = [node(f"n{i}", cpu="4") for i in range(2)]
    objects += [pod(f"vip-{i}", node_name=f"n{i}", owner="ReplicaSet/vip", cpu="3", priority=10) for i in range(2)]
    snapshot = written(tmp_path / "c.json", listed(*objects, pod("low", node_name="n0", owner="ReplicaSet/low", cpu="1", priority=1)))
    arguments = (snapshot, "--fail", "node", "--priority", "10", "--no-remedy")
    assert all(each["cause"]["waysOut"] for each in document(*arguments)["counterexamples"])
    found = document(*arguments, "--preemption")["counterexamples"]
    assert found
    assert not any("cause" in each for each in found)


@pytest.mark.full
def test_processes_give_the_same_bytes() -> None:
    arguments = (ZONES, "--fail", "node", "--deterministic", "-q", "-f", "json")
    assert run(*arguments, "--jobs", "2").stdout == run(*arguments).stdout == run(*arguments, "--jobs", "1").stdout


def test_workers_that_there_are_not_are_told_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    result = run(ZONES, "--fail", "node", "--dask", str(tmp_path / "none"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        f"kubestow: {tmp_path / 'none'}: No such file or directory; an address of a scheduler is like tcp://HOST:8786"
    ]
    result = run(ZONES, "--fail", "node", "--dask", "tcp://scheduler:8786", "--jobs", "2")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == "Error: --jobs cannot be combined with a Dask scheduler, which brings its own workers"
