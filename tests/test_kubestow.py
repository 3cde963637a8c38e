"""The library: its examples run, its signatures stay, and it answers what the commands answer."""

from __future__ import annotations

import ast
import doctest
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

import kubestow
from kubestow import cli, library
from kubestow.report.documents import results

ROOT = Path(cli.__file__).resolve().parent
QUICK = str(ROOT / "instances/quickstart.yaml")
GANG = str(ROOT / "instances/gang-self-affine.yaml")
WORKLOAD = str(ROOT / "instances/gang-self-affine-workload.yaml")
OTHER = str(ROOT / "instances/catalogue.yaml")
DRAIN = str(ROOT / "instances/rebalance-drain.yaml")
FIXED = kubestow.Options(deterministic=True)
#: Names on which scripts rely. A change here is a change for all of them, and belongs into the changelog.
SIGNATURES = {
    "load": "(*paths: 'Path', manifests: 'Sequence[Path]' = (), edits: 'Edits | None' = None, policy: 'Policy | Path | None' = None, "
    "catalogue: 'Path | None' = None, kubernetes_version: 'str | None' = None, feature_gates: 'Mapping[str, bool] | None' = None, "
    "allow_unknown_fields: 'bool' = False) -> 'Input'",
    "solve": "(given: 'Input', options: 'Options | None' = None, *, on_progress: 'OnProgress | None' = None, "
    "stop: 'threading.Event | None' = None) -> 'Placement'",
    "simulate": "(given: 'Input', options: 'Options | None' = None, *, scheduler: 'Path | None' = None, runs: 'int' = 1, "
    "stop: 'threading.Event | None' = None) -> 'Placement'",
    "rebalance": "(given: 'Input', options: 'PlanOptions', *, on_progress: 'OnProgress | None' = None, "
    "stop: 'threading.Event | None' = None) -> 'RebalancePlan'",
    "explain": "(given: 'Input', *, pod: 'str | None' = None, workload: 'str | None' = None, per_node: 'bool' = False, "
    "options: 'Options | None' = None) -> 'Explanation | NodeExplanation'",
    "verify": "(given: 'Input', result: 'Result | Path') -> 'Verification'",
}


def command(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(cli.main, list(arguments))
    return done.exit_code, done.stdout, done.stderr


def test_the_signatures_are_those_that_scripts_know() -> None:
    functions = {name: each for name in kubestow.__all__ if inspect.isfunction(each := getattr(kubestow, name))}
    assert {name: str(inspect.signature(each)) for name, each in functions.items()} == SIGNATURES


def test_all_names_are_there_and_documented() -> None:
    for name in kubestow.__all__:
        assert (getattr(kubestow, name).__doc__ or "").strip(), name


@pytest.mark.full
def test_the_examples_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = [doctest.testmod(kubestow), doctest.testmod(library)]
    assert sum(each.attempted for each in found) >= 12
    assert sum(each.failed for each in found) == 0


def test_it_neither_prints_nor_exits_nor_knows_click() -> None:
    tree = ast.parse(Path(library.__file__).read_text(encoding="utf-8"))
    core = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "commands/core").glob("*.py")]
    for node in (node for each in (tree, *core) for node in ast.walk(each)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            assert not [
                name for name in names if name in ("click", "kubestow.cli", "sys") or name.startswith("kubestow.commands.common")
            ], names
        assert not (isinstance(node, ast.Name) and node.id in ("print", "exit", "SystemExit"))
    program = "import sys, kubestow; print('click' in sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert loaded.stdout == "False\n"


def test_it_says_nothing_by_itself(capfd: pytest.CaptureFixture[str]) -> None:
    kubestow.solve(kubestow.load(QUICK), FIXED)
    assert capfd.readouterr() == ("", "")


def test_a_placement_is_that_of_the_command_byte_for_byte() -> None:
    given = kubestow.load(GANG, manifests=[WORKLOAD], edits=kubestow.Edits(addNodes=["1:a1"]))
    placement = kubestow.solve(given, FIXED)
    text = results.encode(results.result_document(placement), "json").decode()
    code, printed, _ = command("solve", GANG, "-w", WORKLOAD, "--add-nodes", "1:a1", "--deterministic", "-f", "json")
    assert (code, printed) == (0, text)
    assert msgspec.json.decode(msgspec.json.encode(placement), type=kubestow.Placement) == placement


def test_a_plan_is_that_of_the_command() -> None:
    plan = kubestow.rebalance(kubestow.load(DRAIN), kubestow.PlanOptions(drain=("n1",), options=FIXED))
    code, printed, _ = command("rebalance", DRAIN, "--drain", "n1", "--deterministic", "-f", "json")
    assert (code, printed) == (0, results.encode(results.result_document(plan), "json").decode())


@pytest.mark.parametrize("options", [{}, {"per_node": True}, {"pod": "default/db-0"}])
def test_an_explanation_is_that_of_the_command(options: dict[str, Any]) -> None:
    path = str(ROOT / "instances/pending/capacity.yaml")
    answer = kubestow.explain(kubestow.load(path), **options)
    arguments = {"per_node": ["--per-node"], "pod": ["--pod", "default/db-0"]}
    _, printed, _ = command("explain", path, *(word for name in options for word in arguments[name]), "-f", "json")
    said = json.loads(printed)
    assert msgspec.convert(said, type(answer)) == answer


def test_causes_may_take_as_long_as_they_want() -> None:
    given = kubestow.load(str(ROOT / "instances/pending/capacity.yaml"))
    assert kubestow.explain(given, options=kubestow.Options(time_limit=None)).causes


def test_a_verification_is_that_of_the_command(tmp_path: Path) -> None:
    given = kubestow.load(GANG, manifests=[WORKLOAD])
    placement = kubestow.solve(given, FIXED)
    placement.assignments[0].node = "nowhere"
    file = tmp_path / "placement.json"
    file.write_bytes(msgspec.json.encode(placement))
    found = kubestow.verify(given, placement)
    code, printed, _ = command("verify", GANG, "-w", WORKLOAD, "--result", str(file), "-f", "json")
    assert code == 4
    assert msgspec.convert(json.loads(printed), kubestow.Verification) == found == kubestow.verify(given, file)
    assert not found.valid


def test_a_result_is_judged_by_its_own_version_and_edits() -> None:
    older = kubestow.load(QUICK, kubernetes_version="1.34", edits=kubestow.Edits(addNodes=["1:a1"]))
    placement = kubestow.solve(older, FIXED)
    assert placement.snapshot.kubernetesVersion == "1.34"
    assert kubestow.verify(older, placement).valid
    assert kubestow.verify(kubestow.load(QUICK), placement).valid
    with pytest.raises(ValueError, match=r"expected that of the result, Kubernetes 1\.34"):
        kubestow.verify(kubestow.load(QUICK, kubernetes_version="1.37"), placement)
    with pytest.raises(ValueError, match="edits of the input differ from those of the result"):
        kubestow.verify(kubestow.load(QUICK, edits=kubestow.Edits(removeNodes=["b2"])), placement)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (["no-such-file.yaml"], {}),
        ([WORKLOAD], {}),
        ([QUICK, "-w", OTHER], {"manifests": [OTHER]}),
        ([QUICK, "--remove-node", "n9"], {"edits": kubestow.Edits(removeNodes=["n9"])}),
        ([QUICK, "--policy", WORKLOAD], {"policy": WORKLOAD}),
    ],
)
def test_bad_input_has_the_lines_of_the_command(arguments: list[str], options: dict[str, Any]) -> None:
    with pytest.raises(kubestow.InputError) as caught:
        kubestow.load(arguments[0], **options)
    code, _, said = command("solve", *arguments)
    assert code == 1
    assert [line.removeprefix("kubestow: ") for line in said.splitlines() if line.startswith("kubestow: ")] == caught.value.problems


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: kubestow.load(), "no snapshot"),
        (lambda: kubestow.load("-"), "standard input"),
        (lambda: kubestow.load(QUICK, manifests="web.yaml"), "a list of files"),
        (lambda: kubestow.load(QUICK, kubernetes_version="1.3"), "none of 1.34"),
        (lambda: kubestow.load(QUICK, feature_gates={"Nonsense": True}), "Nonsense"),
        (lambda: kubestow.load(QUICK, edits=kubestow.Edits(buy=["1:x@y"])), "--catalogue"),
        (lambda: kubestow.load(QUICK, edits=kubestow.Edits(partial=True)), "--partial requires manifests"),
        (lambda: kubestow.solve(kubestow.load(QUICK), kubestow.Options(engine="magic")), "'magic' is none of"),  # type: ignore[arg-type]
        (lambda: kubestow.solve(kubestow.load(QUICK), kubestow.Options(policy=kubestow.Policy(strategy="pack"))), "given to load"),
        (lambda: kubestow.rebalance(kubestow.load(DRAIN), kubestow.PlanOptions()), "nothing to plan for"),
        (lambda: kubestow.rebalance(kubestow.load(DRAIN), kubestow.PlanOptions(("magic",))), "not a goal"),
        (lambda: kubestow.rebalance(kubestow.load(GANG, manifests=[WORKLOAD]), kubestow.PlanOptions(("repair",))), "without manifests"),
        (
            lambda: kubestow.rebalance(
                kubestow.load(DRAIN), kubestow.PlanOptions(("repair",), limits=kubestow.Limits(maxMoves=-1, alsoMove=["all"]))
            ),
            "maxMoves: -1(.|\n)*|alsoMove",
        ),
        (lambda: kubestow.explain(kubestow.load(QUICK), pod="a/b", workload="c"), "do not go together"),
        (lambda: kubestow.load(Path(QUICK).read_text()), r"got a text of \d+ lines: write it to a file"),
        (lambda: kubestow.load(QUICK, manifests=Path(WORKLOAD)), "a list of files"),  # type: ignore[arg-type]
        (lambda: kubestow.Options(daemon_namespaces="kube-system"), "not the text 'kube-system'"),  # type: ignore[arg-type]
        (lambda: kubestow.Options(seed=2**31), "seed must be in the range"),
        (lambda: kubestow.PlanOptions(drain="n1"), "drain must be a tuple of names"),  # type: ignore[arg-type]
        (lambda: kubestow.PlanOptions("repair"), "goals must be a tuple of names"),  # type: ignore[arg-type]
    ],
)
def test_wrong_use_is_a_value_error(wrong: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        wrong()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: kubestow.load(b"a.yaml"), "files: expected str or PathLike, got bytes"),  # type: ignore[arg-type]
        (lambda: kubestow.load(None), "files: expected str or PathLike, got NoneType"),  # type: ignore[arg-type]
        (lambda: kubestow.load([QUICK]), "files: expected str or PathLike, got list"),  # type: ignore[arg-type]
        (lambda: kubestow.load(QUICK, feature_gates=["A"]), "feature_gates: expected Mapping or None, got list"),  # type: ignore[arg-type]
        (lambda: kubestow.solve(QUICK), "given: expected Input, got str"),  # type: ignore[arg-type]
        (lambda: kubestow.solve(kubestow.load(QUICK), {}), "options: expected Options, got dict"),  # type: ignore[arg-type]
        (lambda: kubestow.rebalance(kubestow.load(DRAIN), kubestow.Options()), "expected PlanOptions, got Options"),  # type: ignore[arg-type]
        (lambda: kubestow.explain(kubestow.load(QUICK), workload=3), "workload: expected str or None, got int"),  # type: ignore[call-overload]
        (lambda: kubestow.verify(kubestow.load(QUICK), {}), r"result: expected Placement or .*, got dict"),  # type: ignore[arg-type]
    ],
)
def test_arguments_of_another_type_are_named(wrong: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        wrong()


def test_limits_of_another_type_are_bad_input() -> None:
    wrong = kubestow.PlanOptions(("repair",), limits=kubestow.Limits(maxMoves="3"))  # type: ignore[arg-type]
    with pytest.raises(kubestow.InputError, match=r"limits: .*maxMoves"):
        kubestow.rebalance(kubestow.load(DRAIN), wrong)


def test_what_is_not_there_or_no_document_is_bad_input() -> None:
    given = kubestow.load(QUICK)
    with pytest.raises(kubestow.InputError, match="--pod: a/b: no such pod"):
        kubestow.explain(given, pod="a/b")
    placement = kubestow.solve(given, FIXED)
    placement.assignments[0].order = "first"  # type: ignore[assignment]
    with pytest.raises(kubestow.InputError, match=re.escape("assignments[0].order")):
        kubestow.verify(given, placement)
    with pytest.raises(kubestow.InputError, match="removeNodes"):
        kubestow.load(QUICK, edits=kubestow.Edits(removeNodes=[7]))  # type: ignore[list-item]


def test_an_input_is_not_used_up() -> None:
    given = kubestow.load(GANG, manifests=[WORKLOAD])
    first, second = kubestow.solve(given, FIXED), kubestow.solve(given, FIXED)
    assert first == second
    assert kubestow.verify(given, first).valid
