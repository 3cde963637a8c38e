"""Input made to exhaust memory, the stack or patience, and names that are no names: in every place that text is read from, and in every
form that it is written in."""

from __future__ import annotations

import gzip
import json
import os
import resource
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kubestow import cli
from tests import tiny, tiny_soft
from tests.fuzz import run
from tests.fuzz.cases import Case
from tests.objects import Object, node, pod
from tests.plans import tiny as tiny_plans
from tests.tiers import thinned

_ROOT = Path(__file__).resolve().parents[2]
_MB = 10**6
_NOTE = "resource-policy.nri.io/affinity"
_DEPLOYMENT: Object = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "default"}}


def write(path: Path, *items: Any) -> Path:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    return path


def good(folder: Path) -> Path:
    return write(folder / "good.json", node("n"), pod("p"))


#: Entry points of a text: the words of a command that reads the file, by the names of the good file and the file in question.
_PLACES: dict[str, Callable[[str, str], list[str]]] = {
    "snapshot": lambda fine, file: ["audit", file],
    "second": lambda fine, file: ["explain", fine, file],
    "manifests": lambda fine, file: ["solve", fine, "-w", file],
    "template": lambda fine, file: ["solve", fine, "--rollout", f"d={file}"],
    "policy": lambda fine, file: ["rebalance", fine, "--goal", "repair", "--policy", file],
    "result": lambda fine, file: ["verify", fine, "--result", file],
    "page": lambda fine, file: ["report", fine, "--result", file],
}


def refused(words: list[str]) -> list[str]:
    """The lines of an orderly refusal."""
    done = run.here(words)
    found = run.faults(Case(words[0]), done)
    assert not found, found
    assert done.code == 1
    assert len(done.err) < 5000
    return done.err.splitlines()


def _laughs(width: int, depth: int, merge: bool) -> str:
    """Each line names the one before many times over."""
    lines = ["a0: &a0 {x: lol}" if merge else "a0: &a0 [lol]"]
    for i in range(1, depth):
        names = ", ".join([f"*a{i - 1}"] * width)
        lines.append(f"a{i}: &a{i} " + (f"{{<<: [{names}], k{i}: [{names}]}}" if merge else f"[{names}]"))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("place", _PLACES)
def test_a_billion_laughs(place: str, merge: bool, tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.yaml"
    bomb.write_text(_laughs(10, 12, merge), encoding="utf-8")
    (line,) = refused(_PLACES[place](str(good(tmp_path)), str(bomb)))
    assert str(bomb) in line
    assert "aliases" in line


@pytest.mark.parametrize("merge", [False, True])
def test_a_billion_laughs_in_an_annotation(merge: bool, tmp_path: Path) -> None:
    laughing = pod("p")
    laughing["metadata"]["annotations"] = {_NOTE: _laughs(10, 12, merge)}
    snapshot = write(tmp_path / "s.json", node("n"), laughing)
    for words in (["solve"], ["explain", "--affinity", "default/p"], ["audit"], ["report"], ["rebalance", "--goal", "improve"]):
        done = run.here([words[0], str(snapshot), *words[1:]])
        assert not run.faults(Case(words[0]), done)
        assert len(done.err) < 5000


#: Nesting without measure, as JSON, as YAML's flow and block forms, and where it is not even closed.
_DEEP = {
    "json-lists": "[" * 100_000 + "]" * 100_000,
    "json-objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "open": '{"apiVersion":"v1","kind":"List","items":[' * 100_000,
    "flow": "a: " + "[" * 100_000 + "]" * 100_000,
    "mappings": "a: " + "{b: " * 100_000 + "1" + "}" * 100_000,
    "block": "- " * 100_000 + "1",
    "keys": "? " * 100_000 + "1",
    "steps": "\n".join(" " * i + "a:" for i in range(2000)),
    "anchors": "- &a " * 100_000 + "1",
}


@pytest.mark.parametrize("place", _PLACES)
@pytest.mark.parametrize("text", _DEEP.values(), ids=_DEEP)
def test_nesting(place: str, text: str, tmp_path: Path) -> None:
    for suffix in ("json", "yaml"):
        deep = tmp_path / f"deep.{suffix}"
        deep.write_text(text, encoding="utf-8")
        (line,) = refused(_PLACES[place](str(good(tmp_path)), str(deep)))
        assert str(deep) in line


@pytest.mark.parametrize("depth", [100, 190, 900, 5000])
def test_nesting_below_what_is_read(depth: int, tmp_path: Path) -> None:
    """In fields that nobody looks at, in such as hold anything, and in annotations: judged one way or the other, by all alike."""
    inner: Any = 1
    text = "[" * depth + "1" + "]" * depth
    for place in ('"spec": {"unknown": %s, "containers": [{"name": "c"}]}', '"spec": {"containers": [{"name": "c", "env": %s}]}'):
        snapshot = tmp_path / "s.json"
        head = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}, '
        snapshot.write_text(head + place.replace("%s", text) + "}", encoding="utf-8")
        for words in (["solve"], ["audit"], ["report"]):
            done = run.here([words[0], str(snapshot)])
            assert not run.faults(Case(words[0]), done), (inner, words)
    noted = pod("p")
    noted["metadata"]["annotations"] = {_NOTE: text}
    for words in (["solve"], ["explain", "--affinity", "default/p"], ["audit"]):
        done = run.here([words[0], str(write(tmp_path / "n.json", node("n"), noted)), *words[1:]])
        assert not run.faults(Case(words[0]), done)


# --- long ---------------------------------------------------------------------------------------------------------------


def _long(text: str) -> dict[str, list[Any]]:
    """Snapshots with ``text`` as a name, a value or a wrong value."""
    labelled, noted, wrong = pod("p", labels={"app": text}), pod("p"), pod("p", cpu=text)
    noted["metadata"]["annotations"] = {_NOTE: text, "kubestow.dev/gang": text}
    term = {"labelSelector": {"matchLabels": {"app": text}}, "topologyKey": text}
    affine = pod("p", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    broken = pod("p")
    broken["spec"]["nodeSelector"] = {text: 1}
    env = pod("p")
    env["spec"]["containers"][0]["env"] = [{"name": "A", "value": text}]
    return {
        "name": [node("n"), pod(text)], "node": [node(text), pod("p", node_name=text)], "label": [node("n"), labelled], "key": [
            node("n", labels={text: text}), pod("p", selector={text: text})], "annotation": [node("n"), noted], "quantity": [node("n"),
            wrong],
        "term": [node("n"), affine], "env": [node("n"), env], "kind": [node("n"), {"apiVersion": "v1", "kind": text,
        "metadata": {"name": "x"}}],
        "wrong": [node(text), pod(text, namespace=text, cpu="x", labels={text: text})], "twins": [node(text), node(text, cpu="1")],
        "path": [node("n"), broken], "priority": [node("n"), pod("p", priorityClassName=text)], "owner": [node("n"), pod("p",
        owner=f"ReplicaSet/{text}")],
    }  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("what", _long(""))
def test_a_long_string(what: str, tmp_path: Path) -> None:
    """Messages stay short regardless of the quoted text, and no table is laid out for a name of megabytes."""
    snapshot = write(tmp_path / "s.json", *_long("x" * _MB)[what])
    for words in (
        ["solve", "-f", "table"],
        ["solve", "-f", "json"],
        ["explain", "-f", "table"],
        ["audit", "-f", "table"],
        ["nodes", "-f", "table"],
        ["report"],
    ):
        done = run.here([words[0], str(snapshot), *words[1:]])
        assert not run.faults(Case(words[0]), done)
        if done.code == 1:
            assert len(done.err) < 6000, done.err[:1000]


def _bounded(words: list[str], gigabytes: int) -> subprocess.CompletedProcess[bytes]:
    """The command with at most this much address space."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (gigabytes << 30, gigabytes << 30))

    command = [sys.executable, str(_ROOT / "cli.py"), *words]
    return subprocess.run(command, capture_output=True, timeout=300, check=False, preexec_fn=limit)


def _ordered(done: subprocess.CompletedProcess[bytes], *codes: int) -> None:
    said = done.stderr.decode()
    assert done.returncode in codes, said[-2000:]
    assert "Traceback" not in said
    assert "internal fault" not in said
    assert done.returncode != 1 or (said.startswith("kubestow: ") and len(said) < 5000 and not done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "json.gz", "plain.yaml", "quoted.yaml", "block.yaml"])
@pytest.mark.parametrize("what", ["name", "annotation", "env", "quantity"])
def test_a_string_of_a_hundred_megabytes(what: str, form: str, tmp_path: Path) -> None:
    text = "x" * (100 * _MB)
    if form.startswith("json"):
        data = json.dumps(_long(text)[what]).encode()
    else:
        style = {"plain": "MARK", "quoted": '"MARK"', "block": "|\n          MARK"}[form.split(".")[0]]
        data = json.dumps(_long("MARK")[what]).encode()
        if form in ("plain.yaml", "quoted.yaml"):
            data = data.replace(b'"MARK"', style.encode())
        else:  # block styles know no braces
            import yaml

            data = yaml.safe_dump(_long("MARK")[what], default_flow_style=False).encode().replace(b": MARK", b": " + style.encode())
        data = data.replace(b"MARK", text.encode())
    file = tmp_path / f"s.{form}"
    file.write_bytes(gzip.compress(data, 1) if form.endswith("gz") else data)
    _ordered(_bounded(["audit", str(file), "-f", "json"], 6), 0, 1, 4)


@pytest.mark.slow
@pytest.mark.parametrize("place", _PLACES)
def test_a_hundred_megabytes_of_nothing(place: str, tmp_path: Path) -> None:
    for content in (b" " * (100 * _MB), b"x" * (100 * _MB), b'"' + b"x" * (100 * _MB), b"#" * (100 * _MB)):
        file = tmp_path / "large.yaml"
        file.write_bytes(content)
        _ordered(_bounded(_PLACES[place](str(good(tmp_path)), str(file)), 8), 0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("place", _PLACES)
def test_gzip_that_unpacks_to_more_than_there_is(place: str, tmp_path: Path) -> None:
    file = tmp_path / "bomb.json.gz"
    with gzip.open(file, "wb", 1) as packed:
        for _ in range(4000):
            packed.write(b" " * _MB)
    _ordered(_bounded(_PLACES[place](str(good(tmp_path)), str(file)), 3), 1)


# --- names --------------------------------------------------------------------------------------------------------------

_NAMES = {
    "nul": "\0", "escape": "\x1b[2J\x1b]0;pwned\x07\x9b31m", "lines": "\n\r\x0b\x0c\x85\u2028\u2029x",
    "right-to-left": "\u202e\u2066\u200fabc",
    "markup": "</script><script>alert(1)</script><img src=x onerror=alert(2)>", "quotes": "'\"`$(touch pwned)\\",
    "rich": "[red]x[/red][link=x]",
    "template": "{{ 7*7 }}{% raw %}", "cdata": "]]>&amp;<!--", "joined": "e\u0301\U0001f46e\u200d\u2640\ufe0f\u200b\ufeff",
}  # fmt: skip

#: Labels, their values, zones and containers in the clusters below: all text but names of objects, which are checked.
_WORDS = frozenset(f"{stem}{i}" for stem in ("v", "z", "r", "node-", "socket-") for i in range(8)) | {
    "a", "b", "c", "x", "y", "zone", "rack", "disk", "ssd", "hdd", "tier", "app", "team", "dedicated", "soft-a", "soft-b",
}  # fmt: skip
#: Fields that hold names of objects.
_NAMING = frozenset(
    {"apiVersion", "metadata", "namespace", "namespaces", "nodeName", "ownerReferences", "claimName", "volumeName", "storageClassName"}
)


def spoilt(value: Any, mark: str) -> Any:
    """The same cluster with all such text marked, alike wherever it stands."""
    if isinstance(value, dict):
        if "metadata" in value:
            metadata = {key: spoilt(each, mark) if key == "labels" else each for key, each in value["metadata"].items()}
            value = {**value, "metadata": metadata}
        return {spoilt(key, mark) if key in _WORDS else key: each if key in _NAMING else spoilt(each, mark) for key, each in value.items()}
    if isinstance(value, list):
        return [spoilt(each, mark) for each in value]
    return f"{value}{mark}" if isinstance(value, str) and value in _WORDS else value


def clusters() -> list[list[Object]]:
    return [
        tiny.snapshot(3, "mixed"), tiny.with_gangs(tiny.snapshot(5, "volumes"), 5), tiny_soft.snapshot(2, "numa"), tiny_soft.snapshot(4,
        "mixed"),
        tiny_plans.cluster(1, "mixed"),
    ]  # fmt: skip


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(sorted(name for name, _ in attrs))))


def _shape(page: bytes) -> set[tuple[str, tuple[str, ...]]]:
    parser = _Elements()
    parser.feed(page.decode())
    return set(parser.found)


@pytest.mark.full
@pytest.mark.parametrize("name", thinned(_NAMES, 3))
@pytest.mark.parametrize("number", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, len(clusters())))])
def test_hostile_text_in_every_form(number: int, name: str, tmp_path: Path) -> None:
    objects, mark = clusters()[number], _NAMES[name]
    plain, odd = write(tmp_path / "plain.json", *objects), write(tmp_path / "odd.json", *spoilt(objects, mark))
    policy = tmp_path / "policy.yaml"
    policy.write_text("topologies: []\n", encoding="utf-8")
    quick = ["--engine", "greedy", "--deterministic", "--workers", "1"]
    asked = [
        (["solve", *quick], ("table", "wide", "csv", "json", "yaml", "kubectl")),
        (["rebalance", "--goal", "repair", "--goal", "consolidate", "--also-move", "bare", *quick], ("table", "csv", "json")),
        (["explain"], ("table", "csv", "json", "yaml")),
        (["explain", "--per-node"], ("table", "csv")),
        (["nodes"], ("table", "wide", "csv", "json", "yaml")),
        (["audit", "--fail-on", "never"], ("table", "csv", "json", "yaml", "junit", "sarif", "github", "gitlab")),
        (["report"], ("html",)),
    ]  # fmt: skip
    for words, forms in asked:
        for form in forms:
            options = ["-f", form] if form != "html" else []
            done = run.here([words[0], str(odd), *words[1:], *options])
            case = Case(words[0], form=form)
            assert not run.faults(case, done), (words, form)
            assert done.code in (0, 3)
            assert not run.shown(case, done.out), (words, form)
            assert all(c.isprintable() or c == "\n" for c in done.err)
            if form == "table":
                assert not {unicodedata.category(c) for c in done.out.decode()} & {"Cs", "Co", "Zl", "Zp"}
            if form == "html":
                assert _shape(done.out) <= _shape(run.here(["report", str(plain)]).out)
    for command in ("solve", "rebalance"):
        target = tmp_path / f"{command}.json"
        words = ["--goal", "repair", "--also-move", "bare"] if command == "rebalance" else []
        CliRunner().invoke(cli.main, [command, str(odd), *words, *quick, "-q", "-o", str(target)])
        for checked in (["verify", "-f", "table"], ["verify", "-f", "json"], ["report"]):
            done = run.here([checked[0], str(odd), "--result", str(target), *checked[1:]])
            form = checked[-1] if len(checked) > 1 else "html"
            assert done.code == 0
            assert not run.faults(Case(checked[0]), done)
            assert not run.shown(Case(checked[0], form=form), done.out)


@pytest.mark.parametrize("mark", _NAMES.values(), ids=_NAMES)
def test_hostile_names_of_objects_are_refused(mark: str, tmp_path: Path) -> None:
    for words, form in [
        ("solve", "kubectl"),
        ("rebalance", "json"),
        ("explain", "table"),
        ("audit", "junit"),
        ("nodes", "csv"),
        ("report", ""),
    ]:
        goal = ["--goal", "repair"] if words == "rebalance" else []
        for bad in (node(f"n{mark}"), pod(f"p{mark}"), pod("p", namespace=mark), pod("p", node_name=mark), pod("p", owner=f"Job/{mark}/")):
            lines = refused([words, str(write(tmp_path / "odd.json", node("n"), bad)), *goal, *(["-f", form] if form else [])])
            assert all(": got " in line and ", expected " in line for line in lines)


@pytest.mark.parametrize("mark", _NAMES.values(), ids=_NAMES)
def test_hostile_words_on_the_command_line(mark: str, tmp_path: Path) -> None:
    snapshot, word = str(good(tmp_path)), mark.replace("\0", "") + "\udcff"
    before = os.listdir(tmp_path)
    for words in (
        ["explain", "--pod", f"a/{word}"], ["explain", "--node", word], ["explain", "--affinity", f"{word}/b"], ["explain", "--workload",
        word],
        ["solve", "--add-nodes", f"1:{word}"], ["solve", "--remove-node", word], ["solve", "--remove-domain", f"a={word}"],
        ["solve", "--replicas", f"{word}=1"], ["solve", "--rollout", word], ["solve", "-w", word], ["solve", "--policy", word],
        ["rebalance", "--drain", word], ["rebalance", "--drain", f"{word}=x"], ["verify", "--result", word], ["report", "--result", word],
        ["solve", word], ["audit", word], ["solve", "-o", f"{word}/{word}"], ["audit", "-w", word],
    ):  # fmt: skip
        done = run.here([words[0], snapshot, *words[1:]])
        assert not run.faults(Case(words[0], loose=True), done), words
        assert done.code in (1, 2), words
    assert os.listdir(tmp_path) == before


@pytest.mark.parametrize("mark", _NAMES.values(), ids=_NAMES)
def test_hostile_names_of_files(mark: str, tmp_path: Path) -> None:
    """In warnings, errors and notes; the file itself is found and written."""
    name = mark.replace("\0", "").replace("/", "") + "\udcff.json"
    snapshot, target = tmp_path / name, tmp_path / f"out-{name}"
    write(snapshot, node("n"), pod("p"))
    assert run.here(["solve", str(snapshot), "-o", str(target)]).code == 0
    assert json.loads(target.read_bytes())["status"] == "optimal"
    done = run.here(["verify", str(snapshot), "--result", str(target), "-f", "table"])
    assert (done.code, run.faults(Case("verify"), done), run.shown(Case("verify", form="table"), done.out)) == (0, [], [])
    snapshot.write_text("{", encoding="utf-8")
    for words in (["solve", str(snapshot)], ["verify", str(snapshot), "--result", str(target)], ["solve", str(tmp_path)]):
        done = run.here(words)
        assert (done.code, run.faults(Case(words[0]), done)) == (1, [])
