"""From manifests to running pods: solve writes them with gates, apply takes the gates off, in a cluster of the stand-in."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from kubestow import cli
from kubestow.live.apply.lease import Lease, LeaseLost
from tests.api_server import Server, SimulatedCluster
from tests.tiers import in_slow

ROOT = Path(cli.__file__).parent
PAIR = ROOT / "instances/gang-mutual-workload.yaml"

pytestmark = pytest.mark.full


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli.main, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def until(true: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


class Gated:
    """The gang of the instance, solved in the world as it is; ``files``: snapshot, placement and gated manifests."""

    def __init__(self, folder: Path) -> None:
        self.world = SimulatedCluster()
        self.world.load([each for each in yaml.safe_load_all((ROOT / "instances/gang-mutual.yaml").read_text()) if each])
        self.snapshot, self.placement, self.manifests = (str(folder / name) for name in ("cluster.json", "placement.json", "gated.yaml"))
        Path(self.snapshot).write_text(json.dumps(self.world.snapshot()))
        forms = ["-f", f"json={self.placement}", "-f", f"manifests={self.manifests}", "--gates"]
        assert run("solve", self.snapshot, "-w", str(PAIR), *forms, "-q").exit_code == 0
        self.planned = sorted(each["node"] for each in json.loads(Path(self.placement).read_text())["assignments"])

    def apply(self) -> None:
        """Do as ``kubectl apply`` does."""
        for document in yaml.safe_load_all(Path(self.manifests).read_text()):
            if document:
                self.world.create(document, "kubectl")

    def verify(self) -> Result:
        """Hold the journal of the run against the placement, and the world as it is now."""
        end = Path(self.snapshot).with_name("end.json")
        end.write_text(json.dumps(self.world.snapshot()))
        asked = ["verify", self.snapshot, "-w", str(PAIR), "--result", self.placement]
        return run(*asked, "--journal", f"{self.placement}.journal.jsonl", "--end", str(end))

    def nodes(self) -> list[str]:
        """Return the nodes of the gang's pods, empty for none."""
        pods = [pod for pod in self.world.all("Pod") if (pod["metadata"].get("labels") or {}).get("app") in ("a", "b")]
        return sorted(pod["spec"].get("nodeName", "") for pod in pods)


@pytest.fixture
def gated(tmp_path: Path) -> Iterator[Gated]:
    found = Gated(tmp_path)
    with Server(found.world) as server:
        server.kubeconfig(tmp_path / "config")
        yield found


def test_a_gang_whose_members_need_each_other_runs_where_it_was_placed(gated: Gated, tmp_path: Path) -> None:
    gated.apply()
    assert gated.nodes() == [""] * 5
    asked = ["apply", gated.snapshot, "-w", str(PAIR), "--result", gated.placement, "--kubeconfig", str(tmp_path / "config")]
    looked = run(*asked)
    assert (looked.exit_code, gated.nodes(), gated.world.requests) == (0, [""] * 5, 0)
    done = run(*asked, "--yes")
    assert done.exit_code == 0, done.stderr
    assert gated.nodes() == gated.planned
    verified = gated.verify()
    assert (verified.exit_code, json.loads(verified.stdout)["violations"]) == (0, []), verified.stdout
    told = json.loads(verified.stdout)["journal"]
    assert (told["bindings"], told["end"]) == ({"done": 5, "of": 5}, {"missed": [], "foreign": []})
    gated.world.patch("Deployment", "default/a", {"spec": {"replicas": 0}})
    until(lambda: len(gated.nodes()) < 5)
    scaled = gated.verify()
    assert scaled.exit_code == 3
    assert "Deployment default/a has 0 pods on node" in json.loads(scaled.stdout)["journal"]["end"]["missed"][0]


def test_what_cannot_be_whole_stops_and_is_undone(gated: Gated, tmp_path: Path) -> None:
    gated.apply()
    for name in ("b1", "b2"):
        gated.world.patch("Node", name, {"spec": {"unschedulable": True}})
    asked = ["apply", gated.snapshot, "-w", str(PAIR), "--result", gated.placement, "--kubeconfig", str(tmp_path / "config")]
    done = run(*asked, "--yes", "--timeout", "0.5", "--undo")
    assert done.exit_code == 3
    assert "deleting Deployment default/a with its pods" in done.stderr
    until(lambda: gated.nodes() == [])
    verified = gated.verify()
    assert (verified.exit_code, json.loads(verified.stdout)["violations"]) == (3, []), verified.stdout
    assert len(json.loads(verified.stdout)["journal"]["left"]) == 5


@pytest.mark.parametrize("number", [signal.SIGTERM, in_slow(signal.SIGINT)])
def test_a_server_in_the_cluster_needs_the_placement_alone(gated: Gated, tmp_path: Path, number: signal.Signals) -> None:
    gated.apply()
    command = [sys.executable, str(ROOT / "cli.py"), "apply", "--serve", "--yes", "--result", gated.placement]
    server = subprocess.Popen([*command, "--kubeconfig", str(tmp_path / "config")], stderr=subprocess.PIPE, text=True)
    try:
        until(lambda: gated.nodes() == gated.planned)
        gone = next(pod["metadata"]["name"] for pod in gated.world.all("Pod") if pod["metadata"]["name"].startswith("a-"))
        gated.world.delete("Pod", f"default/{gone}")
        until(lambda: gated.world.get("Pod", f"default/{gone}") is None and gated.nodes() == gated.planned)
    finally:
        server.send_signal(number)
        _, said = server.communicate(timeout=30)
    assert server.returncode == 130, said
    assert "has the Lease kube-system/kubestow-serve" in said
    assert "Traceback" not in said


def test_a_lost_lease_ends_the_run_before_its_next_request(gated: Gated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(_: Lease) -> None:
        raise LeaseLost("the Lease kube-system/kubestow-apply is lost")

    monkeypatch.setattr(Lease, "check", lost)
    gated.apply()
    asked = ["apply", gated.snapshot, "-w", str(PAIR), "--result", gated.placement, "--kubeconfig", str(tmp_path / "config")]
    done = run(*asked, "--yes")
    assert (done.exit_code, gated.nodes()) == (3, [""] * 5)
    assert "kubestow: the Lease kube-system/kubestow-apply is lost" in done.stderr
    lines = [json.loads(line) for line in Path(f"{gated.placement}.journal.jsonl").read_text().splitlines()]
    assert not [line for line in lines if line["line"] == "request"]
    assert (lines[-1]["what"], lines[-1]["message"]) == ("stopped", "the Lease kube-system/kubestow-apply is lost")
