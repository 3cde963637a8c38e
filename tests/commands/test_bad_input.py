"""Input that is wrong: one line per problem on standard error, exit 1, nothing on standard output, no file written."""

from __future__ import annotations

import copy
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kubestow import cli
from tests.objects import Object, node, pod

OLD = "an earlier result\n"


def refusals(directory: Path, *snapshots: str | Path, command: tuple[str, ...] = ("solve",)) -> list[str]:
    """Return standard error, one entry a line. All other promises of a refusal are checked here."""
    target, untouched = directory / "target.json", directory / "untouched.json"
    untouched.write_text(OLD, encoding="utf-8")
    heard = []
    for output in ([], ["-o", str(target)], ["-o", str(untouched)]):
        result = CliRunner().invoke(cli.main, [*command, *map(str, snapshots), *output], catch_exceptions=False)
        assert (result.exit_code, result.stdout) == (1, ""), result.stderr
        heard.append(result.stderr)
    assert not target.exists()
    assert untouched.read_text(encoding="utf-8") == OLD
    assert heard[0].endswith("\n")
    assert heard[0] == heard[1] == heard[2]
    lines = heard[0].splitlines()
    assert all(line.startswith("kubestow: ") for line in lines), lines
    return [line.removeprefix("kubestow: ") for line in lines]


def write(path: Path, *items: Any) -> Path:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    return path


def put(obj: Object, path: tuple[str | int, ...], value: Any) -> Object:
    """A copy of ``obj`` with the field at ``path`` set."""
    changed = copy.deepcopy(obj)
    at: Any = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return changed


TERM: Object = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
SPREAD: Object = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "x"}}}
GOOD = pod(
    "p",
    namespace="prod",
    spread=[SPREAD],
    tolerations=[{"key": "k", "operator": "Exists"}],
    affinity={
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]},
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}]
            }
        },
    },
)
CPU = ("spec", "containers", 0, "resources", "requests", "cpu")
AFFINE = ("spec", "affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution", 0)
NODE_TERM = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", 0)
FIRST_SPREAD = ("spec", "topologySpreadConstraints", 0)


def dotted(path: tuple[str | int, ...]) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")


def test_the_pod_that_the_cases_below_spoil_is_good(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.main, ["explain", str(write(tmp_path / "s.json", node("n"), GOOD)), "-f", "json"])
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize("command", [("solve",), ("explain",)], ids=["solve", "explain"])
@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (CPU, "10Q", "10Q"),
        (CPU, "1 Gi", "1 Gi"),
        (CPU, "", "quantity"),
        (CPU, "-1", "at least 0"),
        (CPU, "1e400", "1e400"),
        (CPU, [1], "expected"),
        (CPU, True, "expected"),
        ((*FIRST_SPREAD, "maxSkew"), -1, "at least 1"),
        ((*FIRST_SPREAD, "maxSkew"), 0, "at least 1"),
        ((*FIRST_SPREAD, "maxSkew"), "1", "expected"),
        ((*FIRST_SPREAD, "maxSkew"), 1.5, "expected"),
        ((*FIRST_SPREAD, "maxSkew"), 2**70, "expected"),
        ((*FIRST_SPREAD, "topologyKey"), "", "expected a node label key"),
        ((*FIRST_SPREAD, "whenUnsatisfiable"), "Perhaps", "DoNotSchedule or ScheduleAnyway"),
        ((*FIRST_SPREAD, "minDomains"), 0, "at least 1"),
        ((*FIRST_SPREAD, "labelSelector"), "app=x", "expected"),
        ((*AFFINE, "topologyKey"), "", "expected a node label key"),
        ((*AFFINE, "labelSelector", "matchLabels"), {"app": 1}, "expected"),
        ((*NODE_TERM, "matchExpressions", 0, "operator"), "Like", "Gt or Lt"),
        ((*NODE_TERM, "matchExpressions", 0, "operator"), "in", "Gt or Lt"),
        ((*NODE_TERM, "matchExpressions", 0, "values"), [], "at least one value"),
        (("spec", "tolerations", 0, "operator"), "Exist", "Exists or Equal"),
        (("spec", "tolerations"), {}, "expected"),
        (("spec", "containers"), [], "at least one container"),
        (("spec", "containers"), "app", "expected"),
        (("spec", "priority"), "high", "expected"),
        (("spec", "priority"), 2**31, "expected"),
        (("spec", "nodeName"), 7, "expected"),
        (("spec",), [], "expected"),
        (("metadata", "labels"), ["a"], "expected"),
        (("spec", "priorityClassName"), "unheard-of", "no PriorityClass 'unheard-of'"),
    ],
)
def test_a_field_of_a_pod(command: tuple[str, ...], path: tuple[str | int, ...], value: Any, expected: str, tmp_path: Path) -> None:
    file = write(tmp_path / "s.json", node("n"), put(GOOD, path, value))
    (line,) = refusals(tmp_path, file, command=command)
    assert line.startswith(f"{file}: ")
    assert "Pod prod/p: " in line
    where = dotted(path)
    assert f": {where}" in line or f": {where.rpartition('.')[0]}" in line
    assert expected in line


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        (("status", "allocatable", "memory"), "8Gig", "status.allocatable.memory: "),
        (("status", "allocatable", "pods"), -1, "status.allocatable.pods: "),
        (("spec", "taints"), [{"key": "k", "effect": "Never"}], "spec.taints[0].effect: "),
        (("spec", "unschedulable"), "yes", "spec.unschedulable: "),
        (("metadata", "labels", "zone"), 1, "metadata.labels"),
    ],
)
def test_a_field_of_a_node(path: tuple[str | int, ...], value: Any, where: str, tmp_path: Path) -> None:
    file = write(tmp_path / "s.json", pod("p"), put(node("n1"), path, value))
    (line,) = refusals(tmp_path, file)
    assert line.startswith(f"{file}: ")
    assert f"Node n1: {where}" in line


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"apiVersion": "v1", "kind": "List", "items": [{"kind": "Pod"', "s.json"),
        ('{"apiVersion": "v1", "kind": "List", "items": [', "s.json"),
        ("{", "s.json"),
        ("", "s.json"),
        ("   \n", "s.yaml"),
        ("a: [1, 2", "s.yaml"),
        ("a: b: c", "s.yaml"),
        ("kind: Pod\n\tmetadata: {}", "s.yaml"),
        ("&a [*a]", "s.yaml"),
        ("just words", "s.yaml"),
        ("42", "s.json"),
        ("[]x", "s.json"),
        ('{"kind": "List", "items": 3}', "s.json"),
        ('{"kind": "List", "items": {"kind": "Pod"}}', "s.json"),
        ("!!python/object/apply:os.getcwd []", "s.yaml"),
    ],
)
def test_text_that_is_no_snapshot(text: str, name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    (line,) = refusals(tmp_path, file)
    assert line.startswith(f"{file}: ")
    assert len(line) < len(str(file)) + 300


@pytest.mark.parametrize("whole", [b"\xff\xfe\x00", b"kind: \xc3\x28\n", gzip.compress(b"{}" * 500, mtime=0)[:-12], b"\x1f\x8b"])
def test_bytes_that_are_no_text(whole: bytes, tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_bytes(whole)
    (line,) = refusals(tmp_path, file)
    assert line.startswith(f"{file}: ")


def test_every_prefix_of_a_snapshot_is_refused(tmp_path: Path) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("n"), GOOD]})
    file = tmp_path / "s.json"
    for length in range(1, len(text), 97):
        file.write_text(text[:length], encoding="utf-8")
        (line,) = refusals(tmp_path, file)
        assert line.startswith(f"{file}: ")


def test_nesting_without_end(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    for text in ("[" * 200_000, '{"a":' * 200_000):
        file.write_text(text, encoding="utf-8")
        assert len(refusals(tmp_path, file)) == 1


@pytest.mark.parametrize("twin", [pod("p", cpu="2"), pod("p", labels={"a": "b"}), pod("p", node_name="n")])
def test_two_objects_of_one_name(twin: Object, tmp_path: Path) -> None:
    first, second = write(tmp_path / "1.json", node("n"), pod("p")), write(tmp_path / "2.json", twin)
    (line,) = refusals(tmp_path, first, second)
    assert line.startswith(f"{second}: Pod default/p: ")
    assert str(first) in line


def test_the_same_object_twice_is_no_problem(tmp_path: Path) -> None:
    first, second = write(tmp_path / "1.json", node("n"), pod("p")), write(tmp_path / "2.json", pod("p"), node("n"))
    result = CliRunner().invoke(cli.main, ["explain", str(first), str(second), "-f", "json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"pods": [{"pod": "default/p", "feasible": 1, "rejected": {}}], "kubernetesVersion": "1.36"}


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_missing_file(tmp_path: Path) -> None:
    file = tmp_path / "none.json"
    assert refusals(tmp_path, file) == [f"{file}: cannot be read: No such file or directory"]


def test_a_directory_that_holds_no_snapshot(tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    (folder / "README").write_text("text", encoding="utf-8")
    (line,) = refusals(tmp_path, folder)
    assert line.startswith(f"{folder}: ")


def test_a_cycle_of_directories(tmp_path: Path) -> None:
    inner = tmp_path / "dump" / "inner"
    inner.mkdir(parents=True)
    write(inner / "s.json", node("n"), pod("p"))
    link = inner / "loop"
    link.symlink_to(tmp_path / "dump", target_is_directory=True)
    (line,) = refusals(tmp_path, tmp_path / "dump")
    assert line == f"{link}: is a symbolic link to a directory above it"


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    folder = tmp_path / "dump"
    folder.mkdir()
    write(folder / "s.json", node("n"), pod("p"))
    (folder / "itself.json").symlink_to(folder / "itself.json")
    (folder / "gone.json").symlink_to(folder / "nothing.json")
    lines = refusals(tmp_path, folder)
    assert [line.split(": ")[0] for line in lines] == [str(folder / "gone.json"), str(folder / "itself.json")]


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests may run as root, whom no mode keeps out: the refusal is made here."""
    file = write(tmp_path / "s.json", node("n"), pod("p"))
    really = open

    def guarded(path: Any, *args: Any, **kwargs: Any) -> Any:
        if os.fspath(path) == str(file):
            raise PermissionError(13, "Permission denied", str(file))
        return really(path, *args, **kwargs)

    monkeypatch.setattr("kubestow.models.snapshot.sources.open", guarded, raising=False)
    assert refusals(tmp_path, file) == [f"{file}: cannot be read: Permission denied"]


def test_a_bad_file_does_not_hide_another(tmp_path: Path) -> None:
    missing, broken = tmp_path / "none.json", tmp_path / "broken.json"
    broken.write_text("{", encoding="utf-8")
    wrong = write(tmp_path / "wrong.json", put(pod("p"), CPU, "1x"))
    lines = refusals(tmp_path, missing, broken, wrong)
    assert [line.split(": ")[0] for line in lines] == [str(missing), str(broken), str(wrong)]


def test_standard_input_has_a_name(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, cli.__file__, "solve", "-"],
        input='{"kind": "List", "items": [',
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("kubestow: stdin: ")


# --- several ----------------------------------------------------------------------------------------------------------


def test_all_problems_of_all_objects_are_reported(tmp_path: Path) -> None:
    file = write(
        tmp_path / "s.json",
        node("n1", memory="much"),
        node("n2"),
        put(put(GOOD, (*FIRST_SPREAD, "maxSkew"), -3), (*AFFINE, "topologyKey"), ""),
        put(pod("q"), CPU, "1u1"),
        pod("fine"),
        put(pod("r"), ("spec", "containers"), {}),
        {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {}},
    )
    lines = refusals(tmp_path, file)
    expected = [
        "Node n1: status.allocatable.memory: ",
        "Pod prod/p: spec.topologySpreadConstraints[0].maxSkew: ",
        "Pod prod/p: spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: ",
        "Pod default/q: spec.containers[0].resources.requests.cpu: ",
        "Pod default/r: spec.containers: ",
    ]
    assert all(line.startswith(f"{file}: ") for line in lines)
    assert [sum(text in line for line in lines) for text in expected] == [1] * len(expected)
    nameless = [line for line in lines if not any(text in line for text in expected)]
    assert len(nameless) == 1
    assert "name" in nameless[0]


def test_a_hundred_bad_pods_are_a_hundred_lines(tmp_path: Path) -> None:
    file = write(tmp_path / "s.json", node("n"), *(pod(f"p{i}", cpu="x") for i in range(100)))
    lines = refusals(tmp_path, file)
    assert [line.count(f"Pod default/p{i}: ") for i, line in enumerate(lines)] == [1] * 100


def test_hostile_names_stay_on_one_line(tmp_path: Path) -> None:
    file = write(tmp_path / "s.json", node("n"), pod("a\nkubestow: forged\x1b[2J\u2028", namespace="b\r", cpu="x"))
    lines = refusals(tmp_path, file)
    assert not any("\x1b" in line for line in lines)
    fields = ("metadata.name", "metadata.namespace", "spec.containers[0].resources.requests.cpu")
    assert [field for line, field in zip(lines, fields, strict=True) if f": {field}: " in line] == list(fields)


# --- results and targets ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"kind": "Pod"}',
        '{"apiVersion": "kubestow.dev/v1alpha1", "kind": "Placement"}',
        '{"apiVersion": "kubestow.dev/v9", "kind": "Placement", "snapshot": {"sha256": "", "nodes": 1, "pods": 1, "pending": 1},'
        ' "engine": "exact", "status": "optimal", "objective": [], "assignments": []}',
        '{"apiVersion": "kubestow.dev/v1alpha1", "kind": "Placement", "snapshot": {"sha256": "", "nodes": 1, "pods": 1, "pending": 1},'
        ' "engine": "exact", "status": "optimal", "objective": [], "assignments": [{"pod": "default/p", "node": 1, "order": 1}]}',
    ],
)
def test_a_result_that_is_no_placement(text: str, tmp_path: Path) -> None:
    snapshot, result = write(tmp_path / "s.json", node("n"), pod("p")), tmp_path / "result.json"
    result.write_text(text, encoding="utf-8")
    (line,) = refusals(tmp_path, snapshot, command=("verify", "--result", str(result)))
    assert line.startswith(f"{result}: ")


def test_a_missing_result(tmp_path: Path) -> None:
    snapshot, result = write(tmp_path / "s.json", node("n"), pod("p")), tmp_path / "none.json"
    assert refusals(tmp_path, snapshot, command=("verify", "--result", str(result))) == [
        f"{result}: cannot be read: No such file or directory"
    ]


@pytest.mark.parametrize("command", ["solve", "explain"])
def test_a_target_in_a_missing_directory(command: str, tmp_path: Path) -> None:
    snapshot, target = write(tmp_path / "s.json", node("n"), pod("p")), tmp_path / "none" / "out.json"
    result = CliRunner().invoke(cli.main, [command, str(snapshot), "-o", str(target)], catch_exceptions=False)
    assert (result.exit_code, result.stdout, target.parent.exists()) == (1, "", False)
    (line,) = result.stderr.splitlines()
    assert str(tmp_path / "none") in line


@pytest.mark.parametrize(
    "words",
    [
        "audit FILE",
        "solve FILE",
        "explain FILE",
        "rebalance FILE --goal repair",
        "report FILE -o page.html",
        "verify good.json --result FILE",
        "solve good.json -w FILE",
        "solve good.json --rollout web=FILE",
        "audit good.json --policy FILE",
        "audit good.json --config FILE",
        "audit good.json --baseline FILE",
    ],
)
def test_what_may_not_be_read_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """The user of the tests may read everything, so the permission is withdrawn at the query."""
    write(tmp_path / "good.json", node("n"), pod("p"))
    write(tmp_path / "closed.json", node("n"), pod("p"))
    monkeypatch.chdir(tmp_path)
    access, read = os.access, open

    def closed(path: Any) -> bool:
        return isinstance(path, str | bytes | os.PathLike) and os.fspath(path) == "closed.json"

    def refuse(path: Any, *arguments: Any, **options: Any) -> Any:
        if closed(path):
            raise PermissionError(13, "Permission denied", "closed.json")
        return read(path, *arguments, **options)

    monkeypatch.setattr(os, "access", lambda path, mode, **options: not closed(path) and access(path, mode, **options))
    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr("io.open", refuse)
    result = CliRunner().invoke(cli.main, words.replace("FILE", "closed.json").split(), catch_exceptions=False)
    assert (result.exit_code, result.stdout) == (1, ""), result.stderr
    assert result.stderr == "kubestow: closed.json: cannot be read: Permission denied\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["closed.json", "good.json"]
