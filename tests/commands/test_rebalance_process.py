"""Plans from the outside: `kubestow rebalance` and `kubestow verify` as processes with odd arguments, names, outputs and signals."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from kubestow import cli
from tests.objects import Object, node, pod
from tests.terminals import on_a_terminal
from tests.tiers import sampled, thinned

_ROOT = Path(__file__).resolve().parents[2]
_INSTANCES = _ROOT / "instances"
_DRAIN = _INSTANCES / "rebalance-drain.yaml"
_CONSOLIDATE = _INSTANCES / "rebalance-consolidate.yaml"
_FORMS = ["table", "json", "yaml"]


class Done(NamedTuple):
    """What a run left: exit code, standard output and standard error."""

    returncode: int
    stdout: bytes
    stderr: bytes


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, str(_ROOT / "cli.py"), *map(str, arguments)]


def environment(**extra: str) -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")} | {"TERM": "xterm"} | extra


def as_process(*arguments: str | Path) -> Done:
    done = subprocess.run(command(*arguments), env=environment(), capture_output=True, timeout=60, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


def run(*arguments: str | Path, given: bytes = b"", code: int = 0) -> Done:
    """A finished run in this process. For any input, the exit code is as expected, standard error says it in plain lines, and bad input
    or usage leaves standard output empty."""
    unset = {"NO_COLOR": None, "FORCE_COLOR": None, "COLUMNS": None, "TERM": "xterm"}
    result = CliRunner().invoke(cli.main, [*map(str, arguments)], input=given, env=unset)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    done = Done(result.exit_code, result.stdout_bytes, result.stderr_bytes)
    said = done.stderr.decode()
    assert done.returncode == code, said
    assert "Traceback" not in said
    assert "internal fault" not in said
    assert "\x1b" not in said
    if code == 1:
        assert done.stdout == b""
        assert re.fullmatch("(kubestow: .*\n)+", said)
    if code == 2:
        assert done.stdout == b""
        assert "Error: " in said
    return done


def write(path: Path, *items: Object) -> Path:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def plan() -> Any:
    """A plan of five moves in two waves."""
    return json.loads(run("rebalance", _DRAIN, "--drain", "n1", "--deterministic").stdout)


@pytest.fixture(scope="module")
def consolidated() -> bytes:
    """A plan for an instance with affinity terms, so that its pods are in the tallies of the checker."""
    return run("rebalance", _CONSOLIDATE, "--goal", "consolidate", "--goal", "improve", "-q").stdout


@pytest.fixture(scope="module")
def worn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster that is worth a search of many seconds."""
    path = tmp_path_factory.mktemp("worn") / "worn.json.gz"
    run("generate", "--nodes", "150", "--pods", "1300", "--worn", "30", "-o", path)
    return path


# --- numbers ----------------------------------------------------------------------------------------------------------


_NUMBERS = ["--max-moves", "--max-evictions", "--max-freed", "--max-moves-per-namespace", "--max-moves-per-workload", "--min-gain"]
_NUMBERS.append("--max-waves")
_ALL = ["--goal", "consolidate", "--goal", "improve", "--drain", "n1", "--allow-eviction", "--time-limit", "5"]


@pytest.mark.parametrize("option", _NUMBERS)
def test_a_number_beyond_all_measure_is_wrong_usage(option: str) -> None:
    run("rebalance", _DRAIN, *_ALL, option, str(2**63), code=2)


@pytest.mark.full
def test_large_numbers_are_fine() -> None:
    run("rebalance", _DRAIN, *_ALL, *(word for option in _NUMBERS for word in (option, "1000000")))


# --- where a result goes ----------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize(
    "arguments", [("rebalance", _DRAIN, "--drain", "n1"), ("verify", _DRAIN, "--result", "-")], ids=["rebalance", "verify"]
)
def test_a_result_that_cannot_be_written_is_one_line(arguments: tuple[str, ...], plan: Any, tmp_path: Path) -> None:
    given = json.dumps(plan).encode()
    assert run(*arguments, "-o", "/dev/full", given=given, code=1).stderr == b"kubestow: No space left on device\n"
    assert run(*arguments, "-o", tmp_path, given=given, code=1).stderr == f"kubestow: {tmp_path}: Is a directory\n".encode()
    run(*arguments, "-o", tmp_path / "none" / "out", given=given, code=1)
    assert os.listdir(tmp_path) == []
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command(*arguments), input=given, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, b"kubestow: No space left on device\n")


@pytest.mark.full
@pytest.mark.parametrize("form", thinned(["json", "table"], 2))
def test_a_reader_that_leaves_is_no_error(form: str, worn: Path) -> None:
    arguments = command("rebalance", worn, "--goal", "consolidate", "--engine", "greedy", "-q", "-f", form)
    process = subprocess.Popen(arguments, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(1)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 0


def _on_a_terminal(arguments: list[str], **extra: str) -> tuple[int, str]:
    return on_a_terminal(arguments, environment(**extra))


@pytest.mark.full
def test_a_terminal_gets_a_table_and_a_pipe_json(plan: Any) -> None:
    arguments = command("rebalance", _DRAIN, "--drain", "n1", "-q")
    code, text = _on_a_terminal(arguments)
    assert code == 0
    assert "\x1b[" in text
    assert "Wave 2" in text
    code, text = _on_a_terminal(arguments, NO_COLOR="1", COLUMNS="30")
    assert (code, "\x1b[" in text, "Wave 2" in text) == (0, False, True)
    assert json.loads(run("rebalance", _DRAIN, "--drain", "n1", "-q").stdout)["moves"] == plan["moves"]


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_plans_and_snapshots_from_standard_input(plan: Any, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    snapshot = _DRAIN.read_bytes()
    assert json.loads(run("rebalance", "-", "--drain", "n1", "--deterministic", given=snapshot).stdout) == plan
    assert json.loads(run("verify", "-", "--result", tmp_path / "plan.json", given=snapshot).stdout)["valid"]
    run("verify", "-", "--result", "-", given=snapshot, code=2)
    run("rebalance", "-", "--drain", "n1", code=1)


@pytest.mark.full
def test_what_is_no_plan_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    for garbage in (
        os.urandom(2_000_000),
        b"[" * 2_000_000,
        b'{"a":' * 100_000,
        b"x" * 5_000_000,
        b"\x1f\x8b broken",
        b"",
        _DRAIN.read_bytes(),
    ):
        path.write_bytes(garbage)
        assert run("verify", _DRAIN, "--result", path, code=1).stderr.count(b"\n") == 1
    run("verify", _DRAIN, "--result", tmp_path, code=1)


def _twice(document: Any) -> None:
    document["moves"].insert(0, document["moves"][0])


def _twice_in_a_wave(document: Any) -> None:
    again = dict(document["moves"][0], to=document["moves"][0]["from"], **{"from": document["moves"][0]["to"]})
    document["moves"].insert(1, again)


def _nobody(document: Any) -> None:
    document["moves"][0]["pod"] = "no/such"


def _nowhere(document: Any) -> None:
    document["moves"][0]["to"] = ""


def _numbers(document: Any) -> None:
    document["moves"][0].update(step=-(2**40), wave=2**40)


def _bound(document: Any) -> None:
    document["moves"][0]["from"] = None


def _goals(document: Any) -> None:
    document["goals"] = ["[red]", "improve", "admit"]


def _none(document: Any) -> None:
    document["moves"] = []


@pytest.mark.full
@pytest.mark.parametrize("change", sampled([_twice, _twice_in_a_wave, _nobody, _nowhere, _numbers, _bound, _goals, _none], every=8))
def test_a_plan_changed_by_hand_has_violations_and_no_traceback(change: Callable[[Any], None], consolidated: bytes, tmp_path: Path) -> None:
    document = json.loads(consolidated)
    change(document)
    (tmp_path / "plan.json").write_text(json.dumps(document))
    done = run("verify", _CONSOLIDATE, "--result", tmp_path / "plan.json", code=4)
    assert json.loads(done.stdout)["violations"]


# --- names ------------------------------------------------------------------------------------------------------------

_NAMES = ["[red]x[/red]", "\x1b[31mx\u202ey", "x\ntouch pwned\n#", "'a[$(touch pwned)]"]


@pytest.mark.full
@pytest.mark.parametrize("name", _NAMES)
def test_hostile_names_are_refused_before_anything_is_written(name: str, tmp_path: Path) -> None:
    odd = pod("web", node_name=name, owner=f"ReplicaSet/{name}", labels={"app": name, "pod-template-hash": name})
    odd["metadata"]["uid"] = name
    snapshot = write(tmp_path / "odd.json", node(name), node("n2"), odd)
    done = run("rebalance", snapshot, "--drain", name, "-o", tmp_path / "plan.json", code=1)
    said = done.stderr.decode()
    assert not [c for c in said if c != "\n" and unicodedata.category(c) in ("Cc", "Cf")]
    for field in ("metadata.name", "metadata.uid", "spec.nodeName"):
        assert f": {field}: got " in said
    assert os.listdir(tmp_path) == ["odd.json"]


@pytest.mark.full
def test_what_is_no_uid_is_refused(tmp_path: Path) -> None:
    odd = pod("web", node_name="n1", owner="ReplicaSet/web")
    odd["metadata"]["uid"] = "x]$(touch pwned)"
    snapshot = write(tmp_path / "odd.json", node("n1"), node("n2"), odd)
    for command, options in (("solve", ()), ("rebalance", ("--drain", "n1")), ("audit", ()), ("explain", ())):
        done = run(command, snapshot, *options, code=1)
        assert (done.stdout, done.stderr.decode().splitlines()) == (b"", [
            f"kubestow: {snapshot}: Pod default/web: metadata.uid: got 'x]$(touch pwned)', "
            "expected a UUID, or up to 128 letters, digits, '.', ':', '_' and '-'"
        ])  # fmt: skip


# --- time -------------------------------------------------------------------------------------------------------------


def _interrupted(worn: Path, *arguments: str | Path) -> Done:
    """A search that hears ^C once it has said a value."""
    process = subprocess.Popen(
        command("rebalance", worn, "--goal", "consolidate", "-v", *arguments),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    said = b""
    while b"freed" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return Done(process.returncode, out, said + err)


@pytest.mark.full
def test_interrupted_the_best_plan_so_far_is_written_and_valid(worn: Path, tmp_path: Path) -> None:
    done = _interrupted(worn, "-o", tmp_path / "plan.json")
    assert (done.returncode, done.stdout) == (130, b"")
    assert b"stopping with the best result so far" in done.stderr
    assert b"Traceback" not in done.stderr
    assert os.listdir(tmp_path) == ["plan.json"]
    assert json.loads((tmp_path / "plan.json").read_text())["moves"]
    run("verify", worn, "--result", tmp_path / "plan.json")


@pytest.mark.full
def test_a_time_limit_that_is_too_short_still_gives_a_valid_plan(worn: Path, tmp_path: Path) -> None:
    run("rebalance", worn, "--goal", "consolidate", "--goal", "improve", "--time-limit", "0.01", "-o", tmp_path / "plan.json")
    run("verify", worn, "--result", tmp_path / "plan.json")


@pytest.mark.full
@pytest.mark.parametrize("goal", thinned(["repair", "improve", "consolidate", "admit"], 4))
def test_deterministic_runs_give_the_same_bytes(goal: str, tmp_path: Path) -> None:
    snapshot = tmp_path / "small.json"
    run("generate", "--nodes", "9", "--pods", "60", "--worn", "30", "--rules", "80", "-o", snapshot)
    asked = ("rebalance", snapshot, "--goal", goal, "--deterministic", "--time-limit", "0.05", "--workers", "2", "-q")
    first, second = as_process(*asked), as_process(*asked)
    assert first.returncode == second.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    assert b'"seconds"' not in first.stdout


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize(("drain", "form", "code"), [("kubernetes.io/hostname", "csv", 3), ("n9", "table", 1), ("a in (b", "json", 1)])
def test_exit_codes(drain: str, form: str, code: int) -> None:
    done = run("rebalance", _DRAIN, "--drain", drain, "-f", form, code=code)
    assert bool(done.stdout) == (code == 3)


@pytest.mark.full
@pytest.mark.parametrize("form", _FORMS)
def test_an_empty_cluster_has_nothing_to_do(form: str, tmp_path: Path) -> None:
    done = run("rebalance", write(tmp_path / "empty.json", node("n1")), "--goal", "admit", "--goal", "improve", "-f", form)
    assert done.stdout
    assert done.stderr.startswith(b"nothing to do: ")


@pytest.mark.full
def test_prices_are_asked_for_where_they_count(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("priceLabel: price\n")
    run("rebalance", _DRAIN, "--goal", "consolidate", "--policy", policy, code=1)
    run("rebalance", _DRAIN, "--drain", "n1", "--policy", policy)
