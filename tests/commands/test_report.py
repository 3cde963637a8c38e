"""``kubestow report`` as a user has it: every kind of result, refused inputs, and each page in a real browser."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kubestow import cli
from tests.objects import node, pod
from tests.report.page.reading import tour
from tests.report.pages import Chromium, command, embedded, visit
from tests.terminals import on_a_terminal
from tests.tiers import sampled

ROOT = Path(cli.__file__).resolve().parent
INSTANCES = ROOT / "instances"
EVIL = "<script>window.harm=1</script>"


def instance(name: str) -> Path:
    return INSTANCES / f"{name}.yaml"


def write(path: Path, objects: Sequence[dict[str, Any]]) -> Path:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    return path


@dataclass
class Case:
    """``files``: the snapshot; ``result``: the command that makes the result, if any (``FILE`` is a folder to write to); ``options``: of
    ``report``, besides; ``title`` and ``words``: what the page must say."""

    files: Callable[[Path], Path]
    result: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    title: str = ""
    words: tuple[str, ...] = ()


def _of(name: str) -> Callable[[Path], Path]:
    return lambda folder: instance(name)


def _generated(*options: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / "cluster.json.gz"
        done = command("generate", *options, "-o", path)
        assert done.exit_code == 0, done.output
        return path

    return make


def _made(*objects: dict[str, Any]) -> Callable[[Path], Path]:
    return lambda folder: write(folder / "made.json", objects)


def _hostile(folder: Path) -> Path:
    """Labels and values that would be markup, another script, or turn the text around; more pods than fit."""
    bad = [pod(f"p{i}", cpu="3", labels={"a": EVIL}, selector={EVIL: "\u202egnorw"}) for i in range(3)]
    bad.append(pod("runs", cpu="1", node_name="n"))
    zone = {"topology.kubernetes.io/zone": '"><img src=x>'}
    return write(folder / "hostile.json", [node("n", cpu="4", labels=zone), node("m", labels={EVIL: "</script>"}), *bad])


def _template(folder: Path) -> Path:
    """The Deployment of the rollout with another image and a larger request, as a manifest next to the snapshot."""
    listed = yaml.safe_load_all(instance("rollout-three-nodes").read_text())
    objects = [each for document in listed if document for each in (document.get("items") or [document])]
    (app,) = [each for each in objects if each["kind"] == "Deployment"]
    container = app["spec"]["template"]["spec"]["containers"][0]
    container["image"] = "images.example.com/app:2"
    container["resources"] = {"requests": {"cpu": "1100m"}}
    (folder / "new.yaml").write_text(yaml.safe_dump(app))
    return instance("rollout-three-nodes")


GATED = [node("a"), pod("runs", node_name="a"), pod("waits"), pod("gated", schedulingGates=[{"name": "example.com/quota"}])]
NO_PODS = "There were no pods to place."

CASES = {
    "placement": Case(_of("quickstart"), ("solve",), title="Placement of 15 pods", words=("pods placed, priority", "15 of 15")),
    "from scratch": Case(
        _generated("--nodes", "8", "--pods", "60", "--bound", "100", "--seed", "2"),
        ("solve", "--from-scratch", "--engine", "greedy", "--deterministic"),
        title="Placement of 44 pods",
        words=("Moved", "44 of 44"),
    ),
    "containers in zones": Case(_of("peter-sheep-wolf"), ("solve",), title="Placement of 2 pods", words=("NUMA zones",)),
    "left pending": Case(
        _of("pending/capacity"), ("solve",), title="Placement of 1 pod", words=("default/db-0", "Remedies", "--add-nodes 1:n1")
    ),
    "node added": Case(
        _of("pending/capacity"), ("solve", "--add-nodes", "1:n1"), words=("added by a what-if edit", "with 1 more node like n1")
    ),
    "node removed": Case(_of("quickstart"), ("solve", "--remove-node", "c1"), words=("without node c1",)),
    "zone removed": Case(
        _of("spread-infeasible-zone"),
        ("solve", "--remove-domain", "topology.kubernetes.io/zone=zone-c"),
        title="Placement of 0 pods",
        words=("without the nodes labelled topology.kubernetes.io/zone=zone-c",),
    ),
    "manifests": Case(
        _of("gang-mutual"),
        ("solve", "-w", str(instance("gang-mutual-workload"))),
        ("-w", str(instance("gang-mutual-workload"))),
        "Placement of 5 pods",
        ("5 of 5",),
    ),
    "manifests, scaled": Case(
        _of("spread-infeasible-zone"),
        ("solve", "-w", str(instance("spread-infeasible-zone-workload")), "--replicas", "web=9", "--partial"),
        ("-w", str(instance("spread-infeasible-zone-workload"))),
        words=("TaintToleration", "Cannot be placed", "with 9 replicas of web"),
    ),
    "rollout": Case(
        _of("rollout-three-nodes"), ("solve", "--rollout", "app"), title="Rollout of Deployment default/app: 2 waves", words=("completes",)
    ),
    "rollout of a file": Case(
        _template,
        ("solve", "--rollout", "app=FOLDER/new.yaml"),
        ("-w", "FOLDER/new.yaml"),
        "Rollout of Deployment default/app",
        ("completes",),
    ),
    "rollout that halts": Case(
        _of("rollout-deadlock"), ("solve", "--rollout", "app"), words=("gets stuck after", "maxUnavailable 1 instead of 0")
    ),
    "plan": Case(_of("rebalance-consolidate"), ("rebalance", "--goal", "consolidate"), title="Rebalancing plan", words=("freed", "Waves")),
    "plan with stopovers": Case(_of("rebalance-swap"), ("rebalance", "--goal", "repair"), words=("Wave 4 of 4", "Rules broken")),
    "plan with evictions": Case(
        _of("rebalance-admit"),
        ("rebalance", "--goal", "admit", "--allow-eviction"),
        words=("Evictions", "pods evicted for good, priority 0", "1 eviction"),
    ),
    "plan with obstacles": Case(
        _of("rebalance-stuck"),
        ("rebalance", "--drain", "n1"),
        words=("PodDisruptionBudget default/ledger allows no disruption", "✓ proved"),
    ),
    "gated": Case(_made(*GATED), title="Snapshot of 1 node, 3 pods", words=("Gated", "default/waits")),
    "gated, included": Case(_made(*GATED), options=("--include-gated",), words=("Pending", "default/gated")),
    "gated, placed": Case(_made(*GATED), ("solve", "--include-gated"), words=("2 of 2",)),
    "gated, left": Case(_made(*GATED), ("solve",), words=("1 of 1", "SchedulingGates")),
    "snapshot": Case(_of("pending/capacity"), title="Snapshot of 3 nodes, 5 pods", words=("default/db-0", "--add-nodes 1:n1")),
    "snapshot and manifests": Case(
        _of("gang-mutual"),
        options=("-w", str(instance("gang-mutual-workload"))),
        title="Snapshot of 6 nodes, 11 pods",
        words=("no pod that its affinity asks for",),
    ),
    "no pods": Case(_made(node("a"), node("b")), title="Snapshot of 2 nodes, 0 pods", words=(NO_PODS,)),
    "hostile": Case(_hostile, ("solve",), title="Placement of 3 pods", words=(EVIL,)),
    "hostile snapshot": Case(_hostile, title="Snapshot of 2 nodes, 4 pods", words=(EVIL,)),
    "many pods": Case(
        _generated("--nodes", "700", "--pods", "21000", "--bound", "100"),
        title="Snapshot of 700 nodes, 21,000 pods",
        words=("One tile per node", "21,000"),
    ),
}


@dataclass
class Written:
    """Files that the commands wrote: ``page``, its ``data``, and the ``result`` document, if there is one."""

    page: Path
    data: dict[str, Any]
    result: dict[str, Any] | None


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Written]:
    """The page of a case; each is made once."""
    known: dict[str, Written] = {}

    def make(kind: str) -> Written:
        if kind not in known:
            case, folder = CASES[kind], tmp_path_factory.mktemp("report")
            snapshot, extra, result = case.files(folder), [each.replace("FOLDER", str(folder)) for each in case.options], None
            if case.result:
                name, *words = (each.replace("FOLDER", str(folder)) for each in case.result)
                solved = command(name, snapshot, "-o", folder / "result.json", "-f", "json", "--time-limit", "10", *words)
                assert solved.exit_code in (0, 3), solved.output
                result = json.loads((folder / "result.json").read_text())
                extra += ["--result", str(folder / "result.json")]
            done = command("report", snapshot, *extra, "-o", folder / "page.html")
            assert (done.exit_code, done.stdout) == (0, ""), done.output
            known[kind] = Written(folder / "page.html", embedded((folder / "page.html").read_bytes()), result)
        return known[kind]

    return make


@pytest.mark.parametrize("kind", sampled(CASES, every=10))
def test_every_kind_of_result_gets_a_page_that_agrees_with_it(written: Callable[[str], Written], kind: str) -> None:
    found = written(kind)
    data, result = found.data, found.result
    assert CASES[kind].title in data["title"]
    names = data["nodes"]["name"]
    if result is None:
        assert data["views"] == ["now"]
        assert data["summary"]["tiers"] == data["waves"] == data["search"] == []
        return
    assert data["views"] == ["before", "after"]
    assert [abs(tier["value"]) for tier in data["summary"]["tiers"]] == [abs(tier["value"]) for tier in result["objective"]]
    at = {name: p for p, name in enumerate(data["pods"]["name"])}
    after = data["pods"]["place"][-1]
    moves = sorted(result.get("moves", []), key=lambda move: (move["wave"], move["step"]))
    last = {each["pod"]: each.get("node") or each.get("to") for each in (*result.get("assignments", []), *moves)}
    assert {name: after[at[name]] for name in last} == {name: names.index(node) for name, node in last.items()}
    gone = [each["pod"] for each in (*result.get("unplaced", []), *result.get("evictions", [])) if each["pod"] in at]
    assert [after[at[name]] for name in gone] == [-1] * len(gone)


@pytest.mark.full
@pytest.mark.parametrize("kind", CASES)
def test_every_page_opens_without_complaint(written: Callable[[str], Written], chromium: Chromium, kind: str) -> None:
    """All of it is used once; ``visit`` then looks at the console, the network and the policy."""
    found = written(kind)

    def look(browser: Any) -> tuple[str, str, Any, bool]:
        with visit(browser, found.page, reduced_motion="reduce") as opened:
            tour(opened)
            sideways = opened.do("document.documentElement.scrollWidth > innerWidth")
            return opened.page.inner_text("h1"), opened.page.inner_text("body"), opened.do("window.harm"), sideways

    title, text, harm, sideways = chromium(look)
    assert title == found.data["title"]
    assert [words for words in CASES[kind].words if words.lower() not in text.lower()] == []
    assert [words for words in ("undefined", "NaN", "[object") if words in text] == []
    assert harm is None
    assert not sideways


LABEL = re.compile(r"^(.+?)(?:, [^:]+)?: CPU (\d+)%, memory (\d+)%, ([\d,]+) pods?")


@pytest.mark.full
@pytest.mark.parametrize("kind", ["plan", "plan with stopovers", "plan with evictions"])
def test_the_map_shows_what_the_plan_says_before_between_and_after(
    written: Callable[[str], Written], chromium: Chromium, kind: str
) -> None:
    """Pods and shares of every node: those of the document before and after, and of its steps, replayed here, in between."""
    found = written(kind)
    assert found.result is not None
    steps = [*found.result["moves"], *found.result["evictions"]]

    def look(browser: Any) -> list[dict[str, tuple[int, int, int]]]:
        shown = []
        with visit(browser, found.page, reduced_motion="reduce") as opened:
            opened.page.click("#first")
            while True:
                labels = opened.do("[...document.querySelectorAll('#map [data-n]')].map((each) => each.getAttribute('aria-label'))")
                parts = [LABEL.match(label) for label in labels]
                shown.append({m[1]: (int(m[2]), int(m[3]), int(m[4].replace(",", ""))) for m in parts if m})
                if opened.page.is_disabled("#next"):
                    return shown
                opened.page.click("#next")

    shown = chromium(look)
    assert len(shown) == max(step["wave"] for step in steps) + 1
    index = {name: n for n, name in enumerate(found.data["nodes"]["name"])}
    for position, view in ((0, "before"), (-1, "after")):
        for use in found.result[view]["nodes"]:
            n = index[use["node"]]
            of_cpu, of_memory = found.data["nodes"]["cpu"][n], found.data["nodes"]["memory"][n]
            cpu, memory, count = shown[position][use["node"]]
            assert count == use["pods"]
            assert abs(cpu - 100 * use["cpu"] / of_cpu) <= 1
            assert abs(memory - 100 * use["memory"] / of_memory) <= 1
    counts = {name: number for name, (_, _, number) in shown[0].items()}
    for wave, now in enumerate(shown[1:], 1):
        for step in (each for each in steps if each["wave"] == wave):
            if step.get("from"):
                counts[step["from"]] -= 1
            if step.get("to"):
                counts[step["to"]] += 1
        assert {name: number for name, (_, _, number) in now.items()} == counts, wave


@pytest.mark.full
@pytest.mark.parametrize("kind", ["placement", "plan with stopovers", "rollout that halts", "snapshot"])
def test_the_map_and_its_controls_have_room_at_every_position(written: Callable[[str], Written], chromium: Chromium, kind: str) -> None:
    """The map is as wide as the page, and no control's word is broken over lines."""
    found = written(kind)

    def look(browser: Any) -> list[tuple[float, float]]:
        sizes = []
        with visit(browser, found.page, reduced_motion="reduce") as opened:
            for at in ("first", "next", "last"):
                if opened.page.locator(f"#{at}").count():
                    opened.do(f"document.getElementById('{at}').click()")
                share = opened.do("document.getElementById('map').offsetWidth / document.getElementById('main').clientWidth")
                tallest = opened.do("Math.max(...[...document.querySelectorAll('.choice label')].map((each) => each.offsetHeight))")
                sizes.append((share, tallest))
        return sizes

    assert [(share, tall) for share, tall in chromium(look) if share < 0.9 or tall > 45] == []


# --- results that do not hold, or are of something else -------------------------------------------------------------------


@pytest.fixture
def solved(tmp_path: Path) -> dict[str, Any]:
    """The document of a placement of the quickstart."""
    done = command("solve", instance("quickstart"), "-f", "json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _save(path: Path, document: dict[str, Any]) -> Path:
    path.write_text(json.dumps(document))
    return path


def test_violations_stand_on_the_page_and_in_the_exit_code(tmp_path: Path, solved: dict[str, Any]) -> None:
    for each in solved["assignments"]:
        each["node"] = solved["assignments"][0]["node"]
    bad, page = _save(tmp_path / "bad.json", solved), tmp_path / "page.html"
    done = command("report", instance("quickstart"), "--result", bad, "-o", page)
    data = embedded(page.read_bytes())
    told = data["summary"]["violations"]
    assert done.exit_code == 4
    assert f"the result is not valid: {len(told)} violations" in done.stderr
    assert {each["rule"] for each in told} >= {"NodeResourcesFit"}
    quiet = command("report", instance("quickstart"), "--result", bad, "-o", tmp_path / "again.html", "-q")
    assert (quiet.exit_code, quiet.stderr) == (4, "")
    assert (tmp_path / "again.html").read_bytes() == page.read_bytes()


@pytest.mark.full
def test_violations_are_seen_first(tmp_path: Path, solved: dict[str, Any], chromium: Chromium) -> None:
    for each in solved["assignments"]:
        each["node"] = solved["assignments"][0]["node"]
    page = tmp_path / "page.html"
    command("report", instance("quickstart"), "--result", _save(tmp_path / "bad.json", solved), "-o", page)

    def look(browser: Any) -> str:
        with visit(browser, page) as opened:
            tour(opened)
            return str(opened.page.get_by_role("alert").inner_text())

    assert "NodeResourcesFit" in chromium(look)


def test_a_plan_that_breaks_rules_is_shown_and_exits_with_4(tmp_path: Path) -> None:
    made = json.loads(command("rebalance", instance("rebalance-drain"), "--drain", "n1", "-f", "json").stdout)
    made["moves"][0]["to"] = made["moves"][0]["from"]
    page = tmp_path / "page.html"
    done = command("report", instance("rebalance-drain"), "--result", _save(tmp_path / "bad.json", made), "-o", page)
    assert done.exit_code == 4
    assert embedded(page.read_bytes())["summary"]["violations"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("snapshot", "making", "options"),
    [
        ("rebalance-drain", ("rebalance", "rebalance-swap", "--goal", "repair"), ()),
        ("rebalance-drain", ("solve", "quickstart"), ()),
        ("gang-mutual", ("solve", "gang-mutual", "-w", str(instance("gang-mutual-workload"))), ()),  # manifests left out
        ("rollout-three-nodes", ("solve", "rollout-deadlock", "--rollout", "app"), ()),
    ],
    ids=["plan", "placement", "without its manifests", "rollout"],
)
def test_a_result_of_another_snapshot_is_refused_and_nothing_written(
    tmp_path: Path, snapshot: str, making: tuple[str, ...], options: tuple[str, ...]
) -> None:
    name, source, *words = making
    result, page = tmp_path / "result.json", tmp_path / "page.html"
    assert command(name, instance(source), *words, "-f", "json", "-o", result).exit_code in (0, 3)
    page.write_text("mine")
    done = command("report", instance(snapshot), "--result", result, "-o", page, *options)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert all(line.startswith(("kubestow: ", "warning: ")) for line in done.stderr.splitlines())
    assert done.stderr.strip()
    assert page.read_text() == "mine"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["page.html", "result.json"]


HOSTILE_RESULTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "not a result": lambda d: {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
    "a list": lambda d: [d],
    "nothing": lambda d: {},
    "an unknown node": lambda d: {**d, "assignments": [{**d["assignments"][0], "node": EVIL}]},
    "an unknown pod": lambda d: {**d, "assignments": [{**d["assignments"][0], "pod": f"x/{EVIL}"}]},
    "a wrong type": lambda d: {**d, "assignments": 5},
    "a wrong number": lambda d: {**d, "objective": [{**d["objective"][0], "value": "many"}]},
}


@pytest.mark.full
@pytest.mark.parametrize("kind", HOSTILE_RESULTS)
def test_a_document_that_is_no_result_is_one_line_and_no_page(tmp_path: Path, solved: dict[str, Any], kind: str) -> None:
    bad, page = tmp_path / "bad.json", tmp_path / "page.html"
    bad.write_text(json.dumps(HOSTILE_RESULTS[kind](solved)))
    done = command("report", instance("quickstart"), "--result", bad, "-o", page)
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert done.exit_code in (1, 4)
    assert done.stderr.strip()
    if done.exit_code == 1:
        assert not page.exists()
        assert all(line.startswith("kubestow: ") for line in done.stderr.splitlines())
    else:
        assert embedded(page.read_bytes())["summary"]["violations"]


@pytest.mark.full
def test_text_of_a_result_is_text(tmp_path: Path, solved: dict[str, Any], chromium: Chromium) -> None:
    """Sentences in a result are not trusted either."""
    solved["notes"] = [EVIL, "</script><img src=x onerror=window.harm=1>", "{{ 7 * 7 }}"]
    solved["engine"] = EVIL
    page = tmp_path / "page.html"
    done = command("report", instance("quickstart"), "--result", _save(tmp_path / "result.json", solved), "-o", page)
    assert done.exit_code == 4, done.output  # there is no such engine

    def look(browser: Any) -> tuple[Any, str]:
        with visit(browser, page) as opened:
            return opened.do("window.harm"), str(opened.page.inner_text("#notes"))

    harm, notes = chromium(look)
    assert harm is None
    assert EVIL in notes
    assert "{{ 7 * 7 }}" in notes


# --- where the page goes --------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_the_page_goes_to_standard_output_or_a_file_the_same(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    written = command("report", instance("quickstart"), "-o", page)
    piped, dashed = command("report", instance("quickstart")), command("report", instance("quickstart"), "-o", "-")
    assert written.exit_code == piped.exit_code == dashed.exit_code == 0
    assert piped.stdout_bytes == dashed.stdout_bytes == page.read_bytes()
    assert page.read_bytes().startswith(b"<!doctype html>")


@pytest.mark.full
def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    words = [sys.executable, str(ROOT / "cli.py"), "report", str(instance("quickstart"))]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(5) == b"<!doc"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


@pytest.mark.full
def test_on_a_terminal_a_file_is_asked_for() -> None:
    code, text = on_a_terminal([sys.executable, str(ROOT / "cli.py"), "report", str(instance("quickstart"))], os.environ, ROOT)
    assert code == 2
    assert "give -o FILE" in text
    assert "<!doctype" not in text


@pytest.mark.full
def test_a_full_device_leaves_one_line() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "cli.py"), "report", str(instance("quickstart")), "-o", "/dev/full"], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"kubestow: No space left on device\n")


@pytest.mark.full
def test_the_snapshot_may_come_from_standard_input_and_the_result_packed(tmp_path: Path) -> None:
    result, page = tmp_path / "placement.json", tmp_path / "page.html"
    assert command("solve", instance("quickstart"), "-o", result, "-f", "json").exit_code == 0
    words = ["report", "-", "--result", str(result), "-o", str(page)]
    done = CliRunner().invoke(cli.main, words, input=instance("quickstart").read_bytes())
    assert done.exit_code == 0, done.output
    packed = tmp_path / "placement.json.gz"
    packed.write_bytes(gzip.compress(result.read_bytes()))
    again = command("report", instance("quickstart"), "--result", packed, "-o", tmp_path / "again.html")
    assert again.exit_code == 0, again.output
    assert embedded(page.read_bytes())["pods"] == embedded((tmp_path / "again.html").read_bytes())["pods"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--result", "placement.json", "--policy", "p.yaml"), "cannot be combined with --result"),
        (("--result", "placement.json", "--include-gated"), "cannot be combined with --result"),
        (("--result", "placement.json", "--shorthand", "symmetric"), "cannot be combined with --result"),
        (("--result", "plan.json", "-w", str(instance("gang-mutual-workload"))), "without manifests"),
        (("-q", "-v"), "-q"),
        (("--time-limit", "0"), "not a positive number"),
    ],
)
def test_options_that_contradict_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("rebalance", instance("rebalance-drain"), "--drain", "n1", "-o", "plan.json", "-f", "json").exit_code == 0
    assert command("solve", instance("rebalance-drain"), "-o", "placement.json", "-f", "json").exit_code == 0
    done = command("report", instance("rebalance-drain"), *options, "-o", "page.html")
    assert done.exit_code == 2
    assert complaint in done.stderr
    assert not Path("page.html").exists()


# --- what the tour promises -----------------------------------------------------------------------------------------------

TOUR = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")


def test_what_is_in_the_file_and_what_is_not(tmp_path: Path) -> None:
    """Names, requests, labels of nodes and rules are; values that only the pods' programs or the network need are not."""
    secret = pod("app", labels={"public-label": "x"}, selector={"public-key": "public-value"}, node_name="public-node")
    secret["metadata"]["annotations"] = {"hidden-key": "hidden-annotation"}
    secret["spec"]["containers"][0] |= {
        "name": "public-container", "image": "hidden-image", "args": ["hidden-argument"], "command": ["hidden-command"],
        "env": [{"name": "hidden-name", "value": "hidden-value"}],
    }  # fmt: skip
    secret["status"] = {"phase": "Running", "podIP": "192.0.2.17", "hostIP": "192.0.2.18"}
    on = node("public-node", labels={"public-key": "public-value"})
    on["metadata"]["annotations"] = {"x": "hidden-node-annotation"}
    on["status"]["addresses"] = [{"type": "InternalIP", "address": "192.0.2.19"}]
    hidden = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "hidden-secret", "namespace": "default"},
        "data": {"a": "aGlkZGVu"},
    }
    page = tmp_path / "page.html"
    done = command("report", write(tmp_path / "cluster.json", [on, secret, hidden]), "-o", page)
    assert done.exit_code == 0, done.output
    text = page.read_text(encoding="utf-8")
    assert [word for word in ("public-node", "public-key=public-value", "public-container", "default/app") if word not in text] == []
    assert [word for word in ("hidden-", "192.0.2.", "aGlkZGVu") if word in text] == []


@pytest.mark.full
def test_the_address_keeps_the_view(written: Callable[[str], Written], chromium: Chromium) -> None:
    """The parts that the tour names."""
    found = written("plan with stopovers")
    node_name = found.data["nodes"]["name"][1]
    fragment = f"#node={node_name}&wave=2&colour=workload&size=memory"
    named = set(re.findall(r"`#(\w+)=", TOUR)) | set(re.findall(r"\.html#(\w+)=", TOUR))
    assert named == {"node", "wave", "view", "colour", "size"}

    def look(browser: Any) -> tuple[str, str, list[str], str]:
        with visit(browser, found.page, fragment) as opened:
            chosen = opened.do("[...document.querySelectorAll('#colour input:checked, #measure input:checked')].map((each) => each.value)")
            title, wave = opened.page.inner_text("#panel-title"), opened.page.inner_text("#wave")
            opened.press("Escape")
            return title, wave, chosen, str(opened.do("location.hash"))

    title, wave, chosen, kept = chromium(look)
    assert title == node_name
    assert wave.startswith("Wave 2 of 4")
    assert chosen == ["workload", "memory"]
    assert kept == fragment.replace(f"node={node_name}&", "")
