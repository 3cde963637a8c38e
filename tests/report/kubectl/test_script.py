"""Scripts of hand-made plans, run by bash against tests/kubectl_stand_in.py."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from models.documents.placement import SnapshotRef
from models.documents.rebalance_plan import Eviction, Move, RebalancePlan, Summary
from models.snapshot.snapshot import Snapshot, from_objects, load
from report.kubectl.script import script
from tests.objects import Object, node, pod
from tests.terminals import heard
from tests.tiers import sampled

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")

_STAND_IN = Path(__file__).parents[2] / "kubectl_stand_in.py"


def bound(name: str, where: str | None, owner: str | None = "ReplicaSet/web", **more: Any) -> Object:
    """A Running, Ready pod with a UID; pending where ``where`` is None."""
    found = pod(name, node_name=where, owner=owner, **more)
    found["metadata"]["uid"] = f"uid-of-{name}"
    if where is not None:
        found["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return found


def plan(snapshot: Snapshot, *steps: Move | Eviction, drain: tuple[str, ...] = ()) -> RebalancePlan:
    moves = [step for step in steps if isinstance(step, Move)]
    evictions = [step for step in steps if isinstance(step, Eviction)]
    ref = SnapshotRef(snapshot.sha256, len(snapshot.nodes), len(snapshot.pods), 0)
    empty = Summary(0, 0)
    return RebalancePlan(ref, ["repair"], "exact", "optimal", [], moves, evictions, empty, empty, drain=list(drain))


def move(step: int, wave: int, name: str, source: str | None, to: str, **more: Any) -> Move:
    return Move(step, wave, f"default/{name}", source, to, "because", **more)


class Cluster:
    """Objects, the script of a plan for them, and the stand-in's state."""

    def __init__(self, folder: Path, *objects: Object) -> None:
        self.folder = folder
        self.snapshot = from_objects(json.loads(json.dumps(objects)))
        self._path = folder / "state.json"
        kinds = {kind: [each for each in objects if each["kind"] == kind] for kind in ("Node", "Pod")}
        self.state: Object = {"nodes": kinds["Node"], "pods": kinds["Pod"], "log": []}
        kubectl = folder / "kubectl"
        kubectl.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{_STAND_IN}" "$@"\n')
        kubectl.chmod(0o755)

    def start(self, document: RebalancePlan, *arguments: str, **settings: str) -> subprocess.Popen[str]:
        self._path.write_text(json.dumps(self.state))
        file = self.folder / "plan.sh"
        file.write_bytes(script(document, self.snapshot))
        ours = {"KUBECTL_STATE": str(self._path), "POLL_SECONDS": "0.01", "WAIT_SECONDS": "20", "RETRY_SECONDS": "20"}
        environment = os.environ | ours | settings | {"PATH": f"{self.folder}{os.pathsep}{os.environ['PATH']}"}
        return subprocess.Popen(
            ["bash", str(file), *arguments],
            env=environment, cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            preexec_fn=heard,
        )  # fmt: skip

    def run(self, document: RebalancePlan, *arguments: str, **settings: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        process = self.start(document, *arguments, **settings)
        out, err = process.communicate(timeout=60)
        self.state = json.loads(self._path.read_text())
        return process.returncode, out, err

    def running(self) -> dict[str, str]:
        return {
            p["metadata"]["name"]: p["spec"].get("nodeName", "-") for p in self.state["pods"] if "deletionTimestamp" not in p["metadata"]
        }

    def where(self, owner: str) -> list[str]:
        """The nodes of a workload's pods."""
        names = [p for p in self.state["pods"] for o in p["metadata"].get("ownerReferences", []) if o["name"] == owner]
        return sorted(p["spec"].get("nodeName", "-") for p in names)

    def cordoned(self) -> list[str]:
        return [n["metadata"]["name"] for n in self.state["nodes"] if n["spec"].get("unschedulable")]

    def log(self, *what: str) -> list[tuple[str, list[str]]]:
        return [(entry["name"], entry["open"]) for entry in self.state["log"] if entry["what"] in what]


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Cluster]:
    return lambda *objects: Cluster(tmp_path, *objects)


NODES = [node(f"n{i}") for i in range(1, 5)]


def nodes() -> list[Object]:
    found: list[Object] = json.loads(json.dumps(NODES))
    return found


@pytest.mark.full
def test_waves_go_one_target_at_a_time_behind_a_fence(make: Callable[..., Cluster]) -> None:
    cluster = make(*nodes(), *(bound(f"web-{i}", f"n{i}") for i in (1, 2, 3)), bound("db-0", "n1", "StatefulSet/db"))
    steps = [
        move(1, 1, "web-1", "n1", "n4"),
        move(2, 1, "web-2", "n2", "n4"),
        move(3, 1, "db-0", "n1", "n3"),
        move(4, 2, "web-3", "n3", "n2"),
    ]
    code, out, err = cluster.run(plan(cluster.snapshot, *steps))
    assert (code, err) == (0, "")
    assert cluster.where("web") == ["n2", "n4", "n4"]
    assert cluster.running()["db-0"] == "n3"
    assert cluster.log("evict") == [
        ("default/web-1", ["n4"]),
        ("default/web-2", ["n4"]),
        ("default/db-0", ["n3"]),
        ("default/web-3", ["n2"]),
    ]
    assert cluster.cordoned() == []
    assert "wave 1: 3 moves\n  default/web-1: n1 -> n4\n" in out
    assert out.endswith("Done: 4 of 4 steps.\n")


def test_nodes_that_others_cordoned_stay_so(make: Callable[..., Cluster]) -> None:
    cluster = make(*nodes(), bound("web-1", "n1"))
    cluster.state["nodes"][2]["spec"]["unschedulable"] = True
    assert cluster.run(plan(cluster.snapshot, move(1, 1, "web-1", "n1", "n2")))[0] == 0
    assert cluster.cordoned() == ["n3"]


@pytest.mark.full
def test_a_stopover_is_followed_by_the_name_of_the_replacement(make: Callable[..., Cluster]) -> None:
    cluster = make(*nodes(), bound("web-1", "n1"), bound("api-1", "n2", "ReplicaSet/api"))
    steps = [move(1, 1, "web-1", "n1", "n3", stopover=True), move(2, 2, "api-1", "n2", "n1"), move(3, 3, "web-1", "n3", "n2")]
    code, _, err = cluster.run(plan(cluster.snapshot, *steps))
    assert (code, err) == (0, "")
    assert [name for name, _ in cluster.log("evict")] == ["default/web-1", "default/api-1", "default/web-r1"]
    assert (cluster.where("web"), cluster.where("api")) == (["n2"], ["n1"])


@pytest.mark.full
def test_pods_of_one_workload_that_go_together_are_followed_one_by_one(make: Callable[..., Cluster]) -> None:
    cluster = make(*nodes(), bound("web-1", "n1"), bound("web-2", "n1"))
    out = [move(1, 1, "web-1", "n1", "n2", stopover=True), move(2, 1, "web-2", "n1", "n2", stopover=True)]
    code, _, err = cluster.run(plan(cluster.snapshot, *out, move(3, 2, "web-1", "n2", "n3"), move(4, 2, "web-2", "n2", "n4")))
    assert (code, err) == (0, "")
    assert cluster.where("web") == ["n3", "n4"]


def test_drained_nodes_stay_cordoned(make: Callable[..., Cluster]) -> None:
    cluster = make(*nodes(), bound("web-1", "n1"))
    code, out, _ = cluster.run(plan(cluster.snapshot, move(1, 1, "web-1", "n1", "n2"), drain=("n1",)))
    assert code == 0
    assert cluster.cordoned() == ["n1"]
    assert "Drained nodes stay cordoned: n1" in out


@pytest.mark.full
def test_evictions_and_bindings(make: Callable[..., Cluster]) -> None:
    """The evicted pod's replacement must not take the room again before the gang is bound."""
    ones = [node("n1", pods="1"), node("n2", pods="1")]
    low = [bound("low-1", "n1", "ReplicaSet/low"), bound("low-2", "n2", "ReplicaSet/low")]
    cluster = make(*ones, *low, bound("g-1", None, "Job/g"), bound("g-2", None, "Job/g"))
    evictions = [Eviction(k, 1, f"default/low-{k}", f"n{k}", "makes room") for k in (1, 2)]
    bindings = [move(3, 2, "g-1", None, "n1", gang="g"), move(3, 2, "g-2", None, "n2", gang="g")]
    code, out, err = cluster.run(plan(cluster.snapshot, *evictions, *bindings))
    assert (code, err) == (0, "")
    assert cluster.log("evict", "bind") == [(f"default/{name}", []) for name in ("low-1", "low-2", "g-1", "g-2")]
    assert (cluster.where("g"), cluster.where("low")) == (["n1", "n2"], ["-", "-"])
    assert "default/low-1: evicted from n1, its replacement stays pending" in out


def only(name: str) -> dict[str, str]:
    return {"kubernetes.io/hostname": name}


@pytest.mark.full
def test_pods_whose_volumes_the_scheduler_provides_are_let_in(make: Callable[..., Cluster]) -> None:
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
    waiting = bound("p", None, "Job/p", selector=only("n1"), volumes=volumes)
    cluster = make(node("n1", pods="1"), node("n2"), bound("web-1", "n1"), waiting)
    code, _, err = cluster.run(plan(cluster.snapshot, move(1, 1, "web-1", "n1", "n2"), move(2, 2, "p", None, "n1")))
    assert (code, err) == (0, "")
    assert cluster.running() == {"web-r1": "n2", "p": "n1"}
    assert cluster.log("bind") == []


def _claiming(name: str, node_name: str) -> Object:
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
    return bound(name, None, "Job/g", selector=only(node_name), volumes=volumes)


def _gang(make: Callable[..., Cluster], first: str, second: str, gang: str | None) -> tuple[Cluster, RebalancePlan]:
    """Its two members belong on n2 and n3, which others leave for n4 first; the plan has them on the nodes given."""
    full = [node("n1"), node("n2", pods="1"), node("n3", pods="1"), node("n4")]
    cluster = make(*full, bound("web-1", "n2"), bound("web-2", "n3"), _claiming("g-1", "n2"), _claiming("g-2", "n3"))
    away = [move(1, 1, "web-1", "n2", "n4"), move(2, 1, "web-2", "n3", "n4")]
    return cluster, plan(cluster.snapshot, *away, *(move(3, 2, f"g-{i}", None, to, gang=gang) for i, to in ((1, first), (2, second))))


@pytest.mark.full
def test_a_gang_that_the_scheduler_binds_whole_is_let_in_together(make: Callable[..., Cluster]) -> None:
    cluster, document = _gang(make, "n2", "n3", "default/g")
    cluster.state["whole"] = ["g"]
    code, out, err = cluster.run(document)
    assert (code, err) == (0, "")
    assert (cluster.running()["g-1"], cluster.running()["g-2"], cluster.cordoned()) == ("n2", "n3", [])
    assert [nodes for _, nodes in cluster.log("uncordon")] == [["n2", "n3"], ["n1", "n2", "n3", "n4"]]
    assert cluster.log("bind") == []
    assert "  default/g-2: pending -> n3, by the scheduler\n" in out
    assert "# 2 pending gang members with volumes or claims" in script(document, cluster.snapshot).decode()
    assert "# 2 pending gang members" not in script(_gang(make, "n2", "n3", None)[1], cluster.snapshot).decode()


@pytest.mark.full
def test_a_gang_member_on_the_target_of_another_stops_the_plan(make: Callable[..., Cluster]) -> None:
    cluster, document = _gang(make, "n3", "n2", "default/g")
    code, _, err = cluster.run(document)
    assert code == 1
    assert "stopped: pod default/g-1 is on n2, in the plan on n3\n" in err
    assert "2 of 4 steps are done" in err
    assert cluster.cordoned() == []


def test_what_is_evicted_for_good_goes_last_in_its_wave(make: Callable[..., Cluster]) -> None:
    """Its replacement would take the room on the open target."""
    cluster = make(node("n1"), node("n2", pods="1"), bound("low", "n1", "ReplicaSet/low"), bound("web-1", "n1"))
    code, _, err = cluster.run(plan(cluster.snapshot, Eviction(1, 1, "default/low", "n1", "room"), move(2, 1, "web-1", "n1", "n2")))
    assert (code, err) == (0, "")
    assert cluster.log("evict") == [("default/web-1", ["n2"]), ("default/low", [])]
    assert cluster.where("web") == ["n2"]


@pytest.mark.full
def test_a_pod_that_the_scheduler_has_bound_by_itself_where_the_plan_wants_it_is_no_surprise(make: Callable[..., Cluster]) -> None:
    waiting = [bound(name, None, "Job/p", selector=only("n1")) for name in ("p-1", "p-2")]
    cluster = make(node("n1", pods="2"), *nodes()[1:], bound("web-1", "n1"), bound("web-2", "n1"), bound("web-3", "n2"), *waiting)
    out = [move(1, 1, "web-1", "n1", "n3"), move(2, 1, "web-2", "n1", "n3")]
    document = plan(cluster.snapshot, *out, move(3, 2, "p-1", None, "n1"), move(4, 3, "web-3", "n2", "n4"), move(5, 4, "p-2", None, "n1"))
    cluster.state["meanwhile"] = {"default/web-3": {"p-2": "n1"}}
    code, _, err = cluster.run(document)
    assert (code, err) == (0, "")
    assert cluster.where("p") == ["n1", "n1"]
    assert [name for name, _ in cluster.log("bind")] == ["default/p-1"]


@pytest.mark.full
def test_a_pod_without_controller_is_created_again(make: Callable[..., Cluster]) -> None:
    cluster = make(*nodes(), bound("alone", "n1", None))
    cluster.state["pods"][0]["metadata"]["resourceVersion"] = "7"
    code, _, err = cluster.run(
        plan(cluster.snapshot, move(1, 1, "alone", "n1", "n2"), move(2, 2, "alone", "n2", "n3")), TMPDIR=str(cluster.folder)
    )
    assert (code, err) == (0, "")
    assert cluster.running() == {"alone": "n3"}
    assert cluster.log("create") == [("default/alone", ["n2"]), ("default/alone", ["n3"])]
    assert not list(cluster.folder.glob("tmp.*"))


def test_a_budget_that_gives_way_is_waited_for(make: Callable[..., Cluster]) -> None:
    cluster = make(*nodes(), bound("web-1", "n1"))
    cluster.state["refuse"] = {"default/web-1": 3}
    assert cluster.run(plan(cluster.snapshot, move(1, 1, "web-1", "n1", "n2")))[0] == 0
    assert cluster.where("web") == ["n2"]


def test_a_budget_that_does_not_give_way_stops_the_plan(make: Callable[..., Cluster]) -> None:
    """What was evicted before lands where it belongs, and only then the fence is taken down."""
    cluster = make(*nodes(), bound("web-1", "n1"), bound("web-2", "n3"))
    cluster.state["refuse"] = {"default/web-2": -1}
    document = plan(cluster.snapshot, move(1, 1, "web-1", "n1", "n2"), move(2, 1, "web-2", "n3", "n2"), move(3, 2, "web-1", "n2", "n4"))
    code, _, err = cluster.run(document, RETRY_SECONDS="0")
    assert code == 1
    assert "stopped: pod default/web-2 cannot be evicted: Error from server (TooManyRequests): Cannot evict pod" in err
    assert "1 of 3 steps are done" in err
    assert "take a new snapshot and plan again" in err
    assert cluster.where("web") == ["n2", "n3"]
    assert cluster.cordoned() == []


def test_a_replacement_that_lands_elsewhere_stops_the_plan(make: Callable[..., Cluster]) -> None:
    cluster = make(*nodes(), bound("web-1", "n1"), bound("api-1", "n1", "ReplicaSet/api"))
    cluster.state["misplace"] = {"web": "n3"}
    code, _, err = cluster.run(plan(cluster.snapshot, move(1, 1, "web-1", "n1", "n2"), move(2, 2, "api-1", "n1", "n2")))
    assert code == 1
    assert "stopped: pod default/web-r1 landed on n3: the plan has default/web-1 on n2" in err
    assert cluster.where("api") == ["n1"]
    assert cluster.cordoned() == []


@pytest.mark.full
def test_a_replacement_that_finds_no_place_stops_the_plan(make: Callable[..., Cluster]) -> None:
    cluster = make(node("n1"), node("n2", pods="0"), bound("web-1", "n1"))
    code, _, err = cluster.run(plan(cluster.snapshot, move(1, 1, "web-1", "n1", "n2")), WAIT_SECONDS="1")
    assert code == 1
    assert "no pod that stands in for default/web-1 is Ready on n2\nstopped: that took more than 1 s" in err
    assert cluster.cordoned() == []


def _elsewhere(state: Object) -> None:
    state["pods"][0]["spec"]["nodeName"] = "n3"


def _another(state: Object) -> None:
    state["pods"][0]["metadata"]["uid"] = "other"


def _gone(state: Object) -> None:
    del state["pods"][0]


def _sibling(state: Object) -> None:
    state["pods"][1]["spec"]["nodeName"] = "n3"


def _target_gone(state: Object) -> None:
    del state["nodes"][1]


def _target_cordoned(state: Object) -> None:
    state["nodes"][1]["spec"]["unschedulable"] = True


def _target_down(state: Object) -> None:
    state["nodes"][1]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]


def _adopted(state: Object) -> None:
    state["pods"][0]["metadata"]["ownerReferences"][0]["name"] = "web2"


@pytest.mark.full
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_elsewhere, "pod default/web-1 is on n3, in the plan on n1"),
        (_another, "its UID is other, not uid-of-web-1"),
        (_gone, "pod default/web-1 is gone"),
        (_sibling, "default ReplicaSet/web: 0 pods run on n2, in the plan 1"),
        (_target_gone, "there is no node n2 any more"),
        (_target_cordoned, "node n2 is cordoned, and not by this script"),
        (_target_down, "node n2 is not Ready"),
        (_adopted, "pod default/web-1 belongs to ReplicaSet/web2, in the plan to ReplicaSet/web"),
    ],
)
def test_a_world_that_is_not_as_planned_is_left_alone(make: Callable[..., Cluster], change: Callable[[Object], None], said: str) -> None:
    cluster = make(*nodes(), bound("web-1", "n1"), bound("web-2", "n2"))
    change(cluster.state)
    code, _, err = cluster.run(plan(cluster.snapshot, move(1, 1, "web-1", "n1", "n2")))
    assert (code, err.count("stopped: "), said in err) == (1, 1, True), err
    assert cluster.state["log"] == []


def test_a_world_that_changes_meanwhile_stops_the_plan(make: Callable[..., Cluster]) -> None:
    cluster = make(*nodes(), bound("web-1", "n1"), bound("api-1", "n1", "ReplicaSet/api"), bound("api-2", "n2", "ReplicaSet/api"))
    cluster.state["meanwhile"] = {"default/web-1": {"api-2": "n4"}}
    code, _, err = cluster.run(plan(cluster.snapshot, move(1, 1, "web-1", "n1", "n2"), move(2, 2, "api-1", "n1", "n3")))
    assert code == 1
    assert "stopped: default ReplicaSet/api: " in err
    assert "1 of 2 steps are done" in err
    assert [name for name, _ in cluster.log("evict")] == ["default/web-1"]
    assert cluster.cordoned() == []


def test_snapshots(make: Callable[..., Cluster], tmp_path: Path) -> None:
    """The hash is that of models.snapshot.sources: of one file or several, compressed or not, in any order."""
    cluster = make(*nodes(), bound("web-1", "n1"))
    one, two = tmp_path / "a.json", tmp_path / "b.json.gz"
    one.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": nodes()}))
    two.write_bytes(gzip.compress(json.dumps(bound("web-1", "n1")).encode()))
    cluster.snapshot = load([str(one), str(two)])
    document = plan(cluster.snapshot, move(1, 1, "web-1", "n1", "n2"))
    code, _, err = cluster.run(document, str(one))
    assert code == 1
    assert f"stopped: this plan is of snapshot {cluster.snapshot.sha256}, the files given are {load([str(one)]).sha256}" in err
    assert "stopped: " in cluster.run(document, str(tmp_path))[2]
    assert cluster.state["log"] == []
    assert cluster.run(document, str(two), str(one))[0] == 0


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_leaves_nothing_cordoned(make: Callable[..., Cluster], number: signal.Signals) -> None:
    cluster = make(*nodes(), bound("web-1", "n1"))
    cluster.state["nodes"][1]["status"]["allocatable"]["pods"] = "0"
    process = cluster.start(plan(cluster.snapshot, move(1, 1, "web-1", "n1", "n2"), drain=("n1",)), POLL_SECONDS="0.2")
    state = cluster.folder / "state.json"
    while '"evict"' not in state.read_text():
        time.sleep(0.02)
    os.killpg(process.pid, number)
    _, err = process.communicate(timeout=30)
    cluster.state = json.loads(state.read_text())
    assert process.returncode == 128 + number
    assert cluster.cordoned() == []
    assert "0 of 1 steps are done" in err


def test_a_dry_run_changes_nothing(make: Callable[..., Cluster]) -> None:
    cluster = make(*nodes(), bound("web-1", "n1"), bound("p", None, "Job/p", selector=only("nowhere")))
    before = json.loads(json.dumps(cluster.state))
    steps = [move(1, 1, "web-1", "n1", "n2"), move(2, 2, "web-1", "n2", "n3"), move(3, 3, "p", None, "n1")]
    code, out, err = cluster.run(plan(cluster.snapshot, *steps), DRY_RUN="1")
    assert (code, err, cluster.state) == (0, "", before)
    commands = [line for line in out.splitlines() if line.startswith("kubectl ")]
    assert [line.split()[1] for line in commands] == ["cordon", "create", "cordon", "uncordon", "create", "cordon", "create", "uncordon"]
    assert commands[1].startswith("kubectl create --raw /api/v1/namespaces/default/pods/web-1/eviction -f - <<< ")
    assert commands[2:4] == ["kubectl cordon n2 ", "kubectl uncordon n3 "]
    assert "/pods/REPLACEMENT-OF-web-1/eviction " in commands[4]
    assert "/pods/p/binding " in commands[6]
    assert out.endswith("Nothing was changed (DRY_RUN).\n")


def test_an_empty_plan_does_nothing(make: Callable[..., Cluster]) -> None:
    cluster = make(*nodes())
    code, out, err = cluster.run(plan(cluster.snapshot))
    assert (code, err, cluster.state["log"]) == (0, "", [])
    assert "There is nothing to move." in out
    assert cluster.run(plan(cluster.snapshot, drain=("n2",)))[0] == 0
    assert cluster.cordoned() == ["n2"]


HOSTILE = ["$(touch broken)", "'; `touch broken`; '", 'a"; touch broken', "a\ntouch broken\n", "x[$(touch broken)]", "-h", "\udcff"]


@pytest.mark.parametrize("text", sampled(HOSTILE, every=7))
def test_nothing_in_a_plan_or_a_snapshot_is_run(make: Callable[..., Cluster], text: str) -> None:
    cluster = make(*nodes(), bound("web-1", "n1"))
    document = plan(cluster.snapshot, move(1, 1, "web-1", "n1", "n2"))
    document.moves[0].reason = document.snapshot.sha256 = text
    assert cluster.run(document)[0] == 0
    assert cluster.where("web") == ["n2"]
    for field in ("name", "uid", "owner", "node", "target", "drain"):
        cluster.snapshot = from_objects(json.loads(json.dumps([*nodes(), bound("web-1", "n1")])))
        found = cluster.snapshot.pods[0]
        document = plan(cluster.snapshot, move(1, 1, "web-1", "n1", "n2"))
        if field == "name":
            found.metadata.name, document.moves[0].pod = text, f"default/{text}"
        elif field == "uid":
            found.metadata.uid = text
        elif field == "owner":
            assert found.metadata.ownerReferences is not None
            found.metadata.ownerReferences[0].name = text
        elif field == "node":
            found.spec.nodeName = document.moves[0].source = text
        elif field == "target":
            document.moves[0].to = text
        else:
            document.drain = [text]
        cluster.state["log"] = []
        code, _, err = cluster.run(document)
        assert (code, cluster.state["log"]) == (1, []), (field, err)
    assert not (cluster.folder / "broken").exists()


def test_notes_say_what_a_fence_does_not_hold(make: Callable[..., Cluster]) -> None:
    spread = [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor"}]
    several = [
        bound("web-1", "n1", spread=spread),
        bound("web-2", "n1", tolerations=[{"operator": "Exists"}]),
        bound("alone", "n1", None),
    ]
    cluster = make(*nodes(), *several)
    steps = [move(i, 1, name, "n1", "n2") for i, name in enumerate(("web-1", "web-2", "alone"), 1)]
    text = script(plan(cluster.snapshot, *steps), cluster.snapshot).decode()
    assert "# 1 pod with topologySpreadConstraints of nodeTaintsPolicy Honor (default/web-1):" in text
    assert "# 1 pod tolerating cordoned nodes (default/web-2)" in text
    assert "# 1 pod without a controller (default/alone):" in text
    none = script(plan(cluster.snapshot), cluster.snapshot).decode()
    assert "Honor" not in none.split("set -euo")[0]


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="no shellcheck")
def test_shellcheck_finds_nothing(make: Callable[..., Cluster], tmp_path: Path) -> None:
    cluster = make(*nodes(), bound("web-1", "n1"))
    file = tmp_path / "plan.sh"
    file.write_bytes(script(plan(cluster.snapshot, move(1, 1, "web-1", "n1", "n2")), cluster.snapshot))
    assert subprocess.run(["shellcheck", "-S", "warning", str(file)], capture_output=True, text=True).stdout == ""
