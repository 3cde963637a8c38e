"""The command upgrade as a user calls it: answers and exit codes, forms, limits that are none, and verify on its documents."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kubestow import cli

POOLS = str(Path(cli.__file__).resolve().parent / "instances" / "upgrade-pools.yaml")
FULL = "--surge", "0", "--max-unavailable", "1"


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli.main, list(arguments), env={"COLUMNS": "200"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def upgrade(pool: str, *more: str) -> Result:
    return run("upgrade", POOLS, "--pool", pool, "--deterministic", *more)


def document(pool: str, *more: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(upgrade(pool, "-f", "json", *more).stdout)
    return found


@pytest.mark.parametrize(
    ("pool", "more", "code", "line"),
    [
        ("pool=green", (), 0, "Gets through: all 3 nodes of pool=green in 3 waves, 6 moves of pods"),
        ("kubernetes.io/hostname=green-1", (), 0, "Gets through: 1 node of kubernetes.io/hostname=green-1 in 1 wave, 2 moves of pods"),
        ("pool=green", FULL, 3, "Blocked (proved): 3 of 3 nodes of pool=green cannot be drained"),
        ("pool", ("--surge", "50%"), 3, "Blocked (proved): 3 of 6 nodes of pool cannot be drained; 3 can, in 1 wave"),
    ],
)
def test_the_first_line_says_whether_it_gets_through(pool: str, more: tuple[str, ...], code: int, line: str) -> None:
    result = upgrade(pool, "-f", "table", *more)
    assert result.exit_code == code
    assert result.stdout.splitlines()[0] == line
    assert line in result.stderr


def test_blockers_are_in_the_document_with_what_helps() -> None:
    found = document("pool=blue")
    assert [(each["node"], each["kind"], each["object"]) for each in found["blocked"]] == [
        ("blue-1", "localVolume", "PersistentVolume disk-of-blue-1"),
        ("blue-2", "PodDisruptionBudget", "PodDisruptionBudget shop/db"),
        ("blue-3", "barePod", "Pod shop/debug"),
    ]
    assert (found["complete"], found["proved"], found["smallestProved"]) == (False, True, True)
    assert "smallestSurge" not in found
    assert document("pool=green", *FULL)["smallestSurge"] == 1


def test_zones_are_upgraded_one_after_the_other() -> None:
    found = document("pool=green", "--by", "zone", "--surge", "3")
    assert [wave["domain"] for wave in found["waves"]] == [f"topology.kubernetes.io/zone={zone}" for zone in "abc"]
    assert "topology.kubernetes.io/zone" in upgrade("pool=green", "--by", "zone", "-f", "table").stdout


def test_csv_has_a_row_for_each_step_and_blocker() -> None:
    rows = list(csv.DictReader(io.StringIO(upgrade("kubernetes.io/hostname in (green-1,blue-3)", "-f", "csv").stdout)))
    assert [row["action"] for row in rows] == ["join", "move", "move", "remove", "blocked"]
    assert rows[-1]["pod"] == "shop/debug"


def test_wide_lists_every_move() -> None:
    assert "shop/web-1" in upgrade("pool=green", "-f", "wide").stdout
    assert "shop/web-1" not in upgrade("pool=green", "-f", "table").stdout


def test_the_same_input_gives_the_same_bytes() -> None:
    assert upgrade("pool", "-f", "json").stdout == upgrade("pool", "-f", "json").stdout


def test_new_nodes_are_as_the_file_says(tmp_path: Path) -> None:
    patch = tmp_path / "next.yaml"
    patch.write_text("metadata: {labels: {pool: green-2}}\n")
    found = document("pool=green", "--to", str(patch))
    assert {each["kind"] for each in found["blocked"]} == {"rule"}
    assert found["to"] == {"metadata": {"labels": {"pool": "green-2"}}}
    patch.write_text("metadata: {labels: {release: '2'}}\n")
    assert document("pool=green", "--to", str(patch))["complete"]


@pytest.mark.parametrize("pool", ["pool=green", "pool=blue"])
def test_verify_accepts_the_document_and_no_other(tmp_path: Path, pool: str) -> None:
    result = tmp_path / "upgrade.json"
    upgrade(pool, "-o", str(result))
    assert run("verify", POOLS, "--result", str(result)).exit_code == 0
    plain = json.loads(result.read_bytes())
    plain["complete"] = not plain["complete"]
    result.write_text(json.dumps(plain))
    assert run("verify", POOLS, "--result", str(result)).exit_code == 4


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--pool", "pool=red"), 1, "--pool 'pool=red': no node of the snapshot has such labels"),
        (("--pool", "a b"), 1, "not a label selector"),
        (("--pool", ""), 2, "expected a label selector"),
        (("--pool", "pool", "--surge", "0"), 2, "both 0"),
        (("--pool", "pool", "--surge", "-1"), 2, "expected N or N%"),
        (("--pool", "pool", "--max-unavailable", "1.5"), 2, "expected N or N%"),
        (("--pool", "pool", "--by", "rack"), 1, "kubestow: --by 'rack': no node of the pool has this label"),
        (("--pool", "pool", "--by", ""), 2, "expected zone or the key"),
        (("--pool", "pool", "--to", "nowhere.yaml"), 1, "nowhere.yaml"),
        ((), 2, "--pool"),
    ],
)
def test_what_cannot_be_asked_is_refused_and_nothing_is_written(tmp_path: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    target = tmp_path / "upgrade.json"
    result = run("upgrade", POOLS, "-o", str(target), *arguments)
    assert (result.exit_code, target.exists()) == (code, False)
    assert said in result.stderr
    assert code == 2 or len(result.stderr.strip().splitlines()) == 1
