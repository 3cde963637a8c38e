"""`kubestow apply` on the stand-in API server, from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from kubestow.commands.apply import rounds
from kubestow.live.apply.outcome import RunOutcome
from kubestow.live.apply.steps import PodOrigin, RunStep
from kubestow.models.documents.rebalance_plan import Limits
from tests.api_server import Behaviour, Server, SimulatedCluster
from tests.objects import Object, node, pod

ROOT = Path(cli.__file__).resolve().parent
_SHOP: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "shop", "namespace": "default"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "shop"}},
        "template": {
            "metadata": {"labels": {"app": "shop"}},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "200m"}}}]},
        },
    },
}


def invoke(*arguments: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(cli.main, list(map(str, arguments)))
    assert result.exit_code == code, f"{result.output}\n{result.stderr}\n{result.exception!r}"
    assert "Traceback" not in result.stderr
    return result


class Cluster:
    """A stand-in with three nodes, six pods of a ReplicaSet with a budget, and a file for each thing that a user has."""

    def __init__(self, folder: Path, behaviour: Behaviour, extra: list[Object] | None = None) -> None:
        self.world = SimulatedCluster(behaviour)
        web = [pod(f"web-{i}", node_name=f"n{1 + i // 2}", owner="ReplicaSet/web", labels={"app": "web"}, cpu="500m") for i in range(6)]
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }
        self.world.load([*(node(f"n{i}", cpu="4") for i in (1, 2, 3)), *web, budget, *(extra or [])], templates_of_pods=True)
        self.snapshot, self.plan = folder / "cluster.json", folder / "plan.json"

    def planned(self, *arguments: str) -> None:
        """Write the snapshot and a plan that drains n1."""
        self.snapshot.write_text(json.dumps(self.world.snapshot()))
        invoke("rebalance", self.snapshot, *(arguments or ("--drain", "n1")), "-q", "-o", self.plan)

    def apply(self, *arguments: str, code: int = 0) -> Result:
        return invoke("apply", self.snapshot, "--result", self.plan, *arguments, code=code)

    def cordoned(self) -> set[str]:
        return {each["metadata"]["name"] for each in self.world.all("Node") if each["spec"].get("unschedulable")}

    def marked(self) -> set[str]:
        found = (each["metadata"] for each in self.world.all("Node"))
        return {metadata["name"] for metadata in found if "kubestow.dev/closed-by" in metadata.get("annotations", {})}

    def on(self, name: str) -> list[str]:
        return [each["metadata"]["name"] for each in self.world.all("Pod") if each["spec"].get("nodeName") == name]

    def changes(self) -> int:
        return sum(entry.actor == "client" for entry in self.world.log)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    found = Cluster(tmp_path, Behaviour(seed=1))
    with Server(found.world) as server:
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "kubeconfig")))
        yield found


def test_without_yes_nothing_is_touched(cluster: Cluster) -> None:
    cluster.planned()
    for options in ((), ("--dry-run",)):
        looked = cluster.apply(*options)
        assert "Wave 1" in looked.stdout
        assert "default/web" in looked.stdout
        assert looked.stderr.splitlines()[-1] == "nothing was touched; it can be carried out: --yes does so"
    assert cluster.changes() == 0
    assert not Path(f"{cluster.plan}.journal.jsonl").exists()


def test_a_pod_that_others_have_asked_to_be_evicted_is_left_to_them(cluster: Cluster) -> None:
    cluster.planned()
    uid = next(each["metadata"]["uid"] for each in cluster.world.all("Pod") if each["metadata"]["name"] == "web-0")
    spec = {"target": {"pod": {"name": "web-0", "uid": uid}}, "requester": "example.com/drainer", "intent": "Eviction"}
    metadata = {"name": "r", "namespace": "default"}
    request = {"apiVersion": "lifecycle.k8s.io/v1alpha1", "kind": "EvictionRequest", "metadata": metadata, "spec": spec}
    cluster.world.load([request], templates_of_pods=True)
    said = "to be evicted by others: EvictionRequest default/r of example.com/drainer asks for it"
    looked = cluster.apply(code=3)
    assert f"note: pod default/web-0 is {said}" in looked.stderr
    assert f"in the way: Pod default/web-0 of a coming step is {said}" in looked.stderr
    assert said in cluster.apply("--yes", code=3).stderr
    assert (len(cluster.on("n1")), cluster.marked()) == (2, set())
    cluster.snapshot.write_text(json.dumps(cluster.world.snapshot()))  # a plan of the cluster as it is now leaves the pod alone
    invoke("rebalance", cluster.snapshot, "--drain", "n1", "-q", "-o", cluster.plan, code=3)
    assert [move["pod"] for move in json.loads(cluster.plan.read_text())["moves"]] == ["default/web-1"]


def test_a_plan_is_carried_out_and_its_journal_verified(cluster: Cluster, tmp_path: Path) -> None:
    cluster.planned()
    done = cluster.apply("--yes")
    assert done.stdout == ""
    assert "done: 2 of 2 steps are done; journal: " in done.stderr
    assert (cluster.on("n1"), cluster.cordoned(), cluster.marked()) == ([], {"n1"}, set())
    assert not cluster.world.budget_violations()
    after = tmp_path / "after.json"
    after.write_text(json.dumps(cluster.world.snapshot()))
    journal = f"{cluster.plan}.journal.jsonl"
    checked = invoke("verify", cluster.snapshot, "--result", cluster.plan, "--journal", journal, "--end", after, "-f", "json")
    told = json.loads(checked.stdout)["journal"]
    assert (told["moves"], told["left"], told["end"]) == ({"done": 2, "of": 2}, [], {"missed": [], "foreign": []})
    assert "continue with --resume" in cluster.apply("--yes", code=1).stderr


@pytest.mark.full
def test_harmless_drift_is_said_and_other_drift_ends_the_run(cluster: Cluster) -> None:
    cluster.planned()
    cluster.world.create(node("n4", cpu="4"))
    assert "harmless: " in cluster.apply().stderr
    assert "n4" in cluster.apply().stderr
    cluster.world.delete("Pod", "default/web-0")
    cluster.world.settle()
    before = cluster.changes()
    assert "in the way: Pod default/web-0" in cluster.apply(code=3).stderr
    stopped = cluster.apply("--yes", code=3)
    assert "default/web-0" in stopped.stderr
    assert "0 of 2 steps are done" in stopped.stderr
    assert (cluster.cordoned(), cluster.marked()) == (set(), set())
    assert cluster.changes() > before  # nodes were closed, and opened again


def test_a_run_ends_after_a_wave_and_is_resumed(cluster: Cluster) -> None:
    cluster.planned()
    first = cluster.apply("--yes", "--wave", "1")
    assert "paused: 1 of 2 steps are done" in first.stderr
    assert cluster.cordoned() == set()
    assert "done: 2 of 2 steps are done" in cluster.apply("--yes", "--resume", "--pause-between", "0.01").stderr
    assert cluster.on("n1") == []


def _process(cluster: Cluster, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(ROOT / "cli.py"), "apply", str(cluster.snapshot), "--result", str(cluster.plan), "--yes", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _until(seen: object, seconds: float = 60.0) -> None:
    assert callable(seen)
    deadline = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Pods take their time to start."""
    found = Cluster(tmp_path, Behaviour(seed=1, start=0.6))
    with Server(found.world) as server:
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "kubeconfig")))
        found.planned()
        yield found


@pytest.mark.full
def test_control_c_finishes_what_is_begun(slow: Cluster) -> None:
    process = _process(slow, "-v")
    _until(lambda: any("eviction" in entry.verb or entry.verb == "evict" for entry in slow.world.log if entry.actor == "client"))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "kubestow: finishing the steps under way" in said
    assert "interrupted: 0 of 2 steps are done" in said
    assert ", and not Ready" in said or " runs on n" in said  # as it is when nodes are open again, which takes its time
    assert (slow.cordoned(), slow.marked(), len(slow.on("n1"))) == (set(), set(), 1)
    assert "done: 2 of 2" in slow.apply("--yes", "--resume").stderr


@pytest.mark.full
@pytest.mark.parametrize("end", ["resume", "open"])
def test_after_kill_9_the_marks_are_found(slow: Cluster, end: str, tmp_path: Path) -> None:
    process = _process(slow)
    _until(lambda: any("eviction" in entry.verb or entry.verb == "evict" for entry in slow.world.log if entry.actor == "client"))
    process.kill()
    process.communicate(timeout=60)
    assert slow.marked() == {"n1", "n2", "n3"}
    taken = tmp_path / "taken.json"
    taken.write_text(json.dumps(slow.world.snapshot()))
    assert "closed" in invoke("nodes", taken, "-f", "table").stderr
    if end == "resume":
        assert "done: 2 of 2" in slow.apply("--yes", "--resume").stderr
        assert slow.cordoned() == {"n1"}
        return
    assert "nothing was touched; --yes opens them" in invoke("apply", "--open").stderr
    assert slow.marked() == {"n1", "n2", "n3"}
    lease = slow.world.get("Lease", "kube-system/kubestow-apply")
    assert lease is not None
    past = (datetime.now(UTC) - timedelta(seconds=40)).isoformat().replace("+00:00", "Z")
    slow.world.patch("Lease", "kube-system/kubestow-apply", {"spec": {"renewTime": past}})  # as if its seconds were over
    opened = invoke("apply", "--open", "--yes").stderr
    assert "did not release the Lease kube-system/kubestow-apply: waiting 12 s" in opened
    assert "3 of 3 nodes opened" in opened
    assert (slow.cordoned(), slow.marked()) == (set(), set())


@pytest.mark.full
def test_until_done_plans_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path, Behaviour(seed=1))
    with Server(cluster.world) as server:
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "kubeconfig")))
        cluster.planned()
        cluster.world.delete("Pod", "default/web-0")  # its successor may be on n1 again
        cluster.world.settle()
        done = cluster.apply("--yes", "--until-done", "--rounds", "3")
        assert "round 2: planning again" in done.stderr
    assert cluster.on("n1") == []
    nodes = [each.obj for each in cluster.world.log if (each.kind, each.key) == ("Node", "n1") and each.obj is not None]
    drained = [bool(each["spec"].get("unschedulable")) for each in nodes]
    assert drained[drained.index(True) :].count(False) == 0  # never open between the rounds
    second = tmp_path / "plan.json.round-2.json"
    invoke("verify", tmp_path / "plan.json.round-2.snapshot.json", "--result", second, "--journal", f"{second}.journal.jsonl")


def test_what_a_round_did_counts_towards_the_limits_of_the_next() -> None:
    origin = PodOrigin("default/p", "uid", ("ReplicaSet", "r", "r"))
    done = [
        RunStep(1, 1, "default/p1", "n1", "n2", "move", origin),
        RunStep(2, 1, "default/p2", "n1", "n2", "recreate", origin),
        RunStep(3, 2, "default/p3", "n1", None, "evict", origin),
        RunStep(4, 2, "default/p4", None, "n2", "bind", origin),
    ]
    outcome = RunOutcome("stopped", done)
    assert rounds._left(Limits(maxMoves=3, maxEvictions=3, maxWaves=5), outcome) == Limits(maxMoves=1, maxEvictions=2, maxWaves=3)
    assert rounds._left(Limits(maxMoves=1, maxWaves=1), outcome) == Limits(maxMoves=0, maxWaves=0)
    assert rounds._left(Limits(), outcome) == Limits()


def test_pods_of_manifests_go_to_their_nodes(cluster: Cluster, tmp_path: Path) -> None:
    manifest, result, gated = tmp_path / "shop.json", tmp_path / "placement.json", tmp_path / "gated.json"
    manifest.write_text(json.dumps(_SHOP))
    cluster.snapshot.write_text(json.dumps(cluster.world.snapshot()))
    invoke("solve", cluster.snapshot, "-w", manifest, "-q", "-f", f"json={result}", "-f", f"manifests={gated}", "--gates")
    given = ("apply", cluster.snapshot, "-w", manifest, "--result", result)
    assert "it is not in the cluster yet" in invoke(*given).stderr
    for obj in _objects(gated):
        cluster.world.create(obj)
    assert "3 wait behind the gate" in invoke(*given).stderr
    assert "done: 3 pods were let go to their nodes" in invoke(*given, "--yes").stderr
    placed = sorted(a["node"] for a in json.loads(result.read_text())["assignments"])
    assert sorted(p["spec"]["nodeName"] for p in cluster.world.all("Pod") if p["metadata"]["name"].startswith("shop")) == placed


def _objects(path: Path) -> list[Object]:
    import yaml

    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def test_without_the_extra_the_waves_are_printed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.planned()
    monkeypatch.setattr("kubestow.live.api.connect.find_spec", lambda name: None)
    shown = cluster.apply()
    assert "Wave 1" in shown.stdout
    assert "was not compared with the snapshot: access to a cluster requires the Kubernetes client library" in shown.stderr
    assert "pip install 'kubestow[apply]'" in cluster.apply("--yes", code=1).stderr


def test_without_the_extra_nothing_of_it_is_imported(cluster: Cluster) -> None:
    """Help and printing, in a process that lacks the library."""
    cluster.planned()
    missing = ["aiohttp", "kubernetes", "yarl", "multidict"]
    lacking = f"import sys; sys.modules |= dict.fromkeys({missing}); import cli; cli.main(sys.argv[1:])"
    for arguments, expected in ((["apply", "--help"], "Usage:"), (["apply", cluster.snapshot, "--result", cluster.plan], "Wave 1")):
        done = subprocess.run(
            [sys.executable, "-c", lacking, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout


def test_what_is_no_document_of_the_snapshot_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    cluster.planned()
    plan = json.loads(cluster.plan.read_text())
    plan["moves"][0]["to"] = "n1"
    cluster.plan.write_text(json.dumps(plan))
    assert "the result is not valid" in cluster.apply("--yes", code=4).stderr
    cluster.world.create(node("n9"))
    (tmp_path / "other.json").write_text(json.dumps(cluster.world.snapshot()))
    assert "of another snapshot" in invoke("apply", tmp_path / "other.json", "--result", cluster.plan, "--yes", code=1).stderr
    assert cluster.changes() == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["x", "--result", "p", "--yes", "--dry-run"],
        ["x"],
        ["--result", "p"],
        ["x", "--open"],
        ["x", "--result", "p", "--evict-again"],
        ["x", "--result", "p", "--yes", "--pause-between", "ask"],
        ["x", "--result", "p", "--pause-between", "soon"],
        ["x", "--result", "-", "--yes"],
    ],
)
def test_options_that_contradict_each_other_are_wrong_usage(arguments: list[str]) -> None:
    assert invoke("apply", *arguments, code=2).stdout == ""


def test_a_cluster_that_cannot_be_reached_is_one_line(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cluster.planned()
    path = Path(os.environ["KUBECONFIG"])
    broken = tmp_path / "broken"
    text = path.read_text()
    server = next(word for word in text.replace('"', " ").split() if word.startswith("http://"))
    broken.write_text(text.replace(server, "http://127.0.0.1:9"))
    refused = invoke("apply", cluster.snapshot, "--result", cluster.plan, "--kubeconfig", broken, code=1)
    assert len([line for line in refused.stderr.splitlines() if line.startswith("kubestow: ")]) == 1
    assert "127.0.0.1:9" in refused.stderr
