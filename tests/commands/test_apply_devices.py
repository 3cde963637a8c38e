"""From a snapshot with pods that claim devices to running pods: solve names the devices, and apply sees that the pods get them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from kubestow import cli
from tests.api_server import Behaviour, Server, SimulatedCluster
from tests.devices import claim, claim_template, device_class, devices, exactly, got, published
from tests.objects import Object, node, pod

pytestmark = pytest.mark.full

CLUSTER = [node("n1"), node("n2"), device_class(), *(published(name, devices("a", "b", "c"), of=name) for name in ("n1", "n2"))]
TEMPLATES = [claim_template("one", exactly()), claim_template("two", exactly(count=2))]


def run(*arguments: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(cli.main, [str(each) for each in arguments])
    assert result.exit_code == code, f"{result.output}\n{result.stderr}\n{result.exception!r}"
    return result


def of(template: str) -> list[Object]:
    return [{"name": "gpu", "resourceClaimTemplateName": template}]


def held(world: SimulatedCluster, name: str) -> list[tuple[str, str]]:
    """Return the devices of all claims that are reserved for a pod."""
    found = []
    for one in world.all("ResourceClaim"):
        status = one.get("status") or {}
        if name in [user["name"] for user in status.get("reservedFor") or ()]:
            found += [(each["pool"], each["device"]) for each in status["allocation"]["devices"]["results"]]
    return sorted(found)


def said(assignments: list[Object]) -> dict[str, list[tuple[str, str]]]:
    return {one["pod"].partition("/")[2]: sorted((each["pool"], each["device"]) for each in one["devices"]) for one in assignments}


class Waiting:
    """Pods wait for devices while nothing schedules; the scheduler begins once all nodes are closed."""

    def __init__(self, folder: Path) -> None:
        self.world = SimulatedCluster(Behaviour(scheduler="off"))
        pods = [pod("p", resourceClaims=of("one")), pod("q", resourceClaims=of("two")), pod("r", resourceClaims=of("two"))]
        self.world.load([*CLUSTER, *TEMPLATES, *pods])
        self.world.settle()
        self.snapshot, self.placement, self.config = (folder / name for name in ("cluster.json", "placement.json", "config"))
        self.snapshot.write_text(json.dumps(self.world.snapshot()))
        run("solve", self.snapshot, "-q", "-f", f"json={self.placement}")
        self.assignments = sorted(json.loads(self.placement.read_text())["assignments"], key=lambda one: int(one["order"]))

    def apply(self, *more: str, code: int = 0) -> Result:
        with Server(self.world) as server:
            server.kubeconfig(self.config)
            return run("apply", self.snapshot, "--result", self.placement, "--kubeconfig", self.config, *more, code=code)


def test_pods_get_the_devices_of_the_placement_in_its_order(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    waiting.world.when(lambda world: len(world.cordoned()) == 2, waiting.world.begin_scheduling)
    assert "it can be carried out" in waiting.apply().stderr
    assert "done: 3 of 3 steps are done" in waiting.apply("--yes").stderr
    wanted = said(waiting.assignments)
    assert {name: held(waiting.world, name) for name in wanted} == wanted
    assert [entry.key for entry in waiting.world.bound("scheduler")] == [one["pod"] for one in waiting.assignments]
    after = tmp_path / "after.json"
    after.write_text(json.dumps(waiting.world.snapshot()))
    journal = f"{waiting.placement}.journal.jsonl"
    told = run("verify", waiting.snapshot, "--result", waiting.placement, "--journal", journal, "--end", after, "-f", "json")
    assert json.loads(told.stdout)["journal"]["end"] == {"missed": [], "foreign": []}


def test_a_device_that_somebody_took_is_named_and_nothing_is_begun(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    pool, name = said(waiting.assignments)["p"][0]
    waiting.world.load([claim("theirs", exactly(), gets=[got(pool, name)])])
    named = f"ResourceClaim default/theirs is new and has gpu.example.com/{pool}/{name}"
    looked = waiting.apply(code=3).stderr
    assert "in the way: " in looked
    assert named in looked
    stopped = waiting.apply("--yes", code=3).stderr
    assert named in stopped
    assert "0 of 3 steps are done" in stopped
    assert (waiting.world.where(), waiting.world.cordoned()) == ({}, [])
    assert [held(waiting.world, each) for each in "pqr"] == [[], [], []]


def test_gated_pods_get_the_devices_of_their_placement(tmp_path: Path) -> None:
    """Pods of one template are alike: which of them has which of its devices, their names do not tell."""
    world = SimulatedCluster()
    world.load([*CLUSTER, *TEMPLATES])
    world.settle()
    snapshot, placement, manifests, gated = (tmp_path / name for name in ("cluster.json", "p.json", "m.yaml", "gated.yaml"))
    snapshot.write_text(json.dumps(world.snapshot()))
    deployments = [
        {
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": 2, "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "c", "image": "i"}], "resourceClaims": of(name)},
                },
            },
        }
        for name in ("one", "two")
    ]  # fmt: skip
    manifests.write_text(yaml.safe_dump_all(deployments))
    run("solve", snapshot, "-w", manifests, "-q", "-f", f"json={placement}", "-f", f"manifests={gated}", "--gates")
    assignments = json.loads(placement.read_text())["assignments"]
    for document in yaml.safe_load_all(gated.read_text()):
        if document:
            world.create(document, "kubectl")
    with Server(world) as server:
        config = server.kubeconfig(tmp_path / "config")
        run("apply", snapshot, "-w", manifests, "--result", placement, "--kubeconfig", config, "--yes")
    for name in ("one", "two"):
        pods = [each["metadata"]["name"] for each in world.all("Pod") if each["metadata"]["labels"]["app"] == name]
        wanted = sorted(got for key, got in said(assignments).items() if key.startswith(f"{name}-"))
        assert sorted(held(world, each) for each in pods) == wanted
        assert len(wanted) == 2
