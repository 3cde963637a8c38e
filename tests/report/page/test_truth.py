"""The page compared with the snapshot and the document: every node at every position, tiles, tables, containers."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kubestow.models.documents.rebalance_plan import Limits
from kubestow.models.snapshot.snapshot import Snapshot, from_objects, load
from kubestow.report.page.data import build
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.rebalance import rebalance
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.objects import node, pod
from tests.report.page import truth
from tests.report.page.browser import Open
from tests.report.page.test_data import placement, plan

pytestmark = pytest.mark.full

ZONE = "topology.kubernetes.io/zone"
INSTANCES = Path("instances")
OPTIONS = Options(time_limit=5, deterministic=True)


def resized(seed: int) -> Snapshot:
    """A random cluster; of some running pods the node still holds more than they ask for now."""
    rng = random.Random(seed)
    nodes = [node(f"n{i}", cpu=str(rng.randint(2, 4)), labels={ZONE: rng.choice("ab")} if rng.random() < 0.8 else {}) for i in range(4)]
    pods = []
    for i in range(14):
        where = f"n{rng.randrange(4)}" if rng.random() < 0.8 else None
        asks = f"{rng.choice((0, 50, 250, 1005))}m"
        found = pod(f"p{i}", cpu=asks, memory=rng.choice(("0", "100M", "1500Mi")), node_name=where, owner=f"ReplicaSet/set-{i % 3}")
        if where is not None and rng.random() < 0.5:
            held = {"cpu": "1500m", "memory": "96Mi"}  # counts where the status has what runs as well, as kubelets write it
            found["status"] = {"containerStatuses": [{"name": "c", "allocatedResources": held, "resources": {"requests": held}}]}
        pods.append(found)
    return from_objects([*nodes, *pods])


@pytest.mark.parametrize("seed", range(4))
def test_random_plans_and_placements(report: Open, seed: int) -> None:
    snapshot = resized(seed)
    result = plan(snapshot, seed) if seed % 2 else placement(snapshot, seed, scratch=True)
    opened = report(build(snapshot, result, version="1"))
    assert truth.check(opened, snapshot, result) > len(snapshot.nodes)
    truth.check_texts(opened, snapshot, result)
    assert truth.check_containers(opened, snapshot, result)
    opened.quiet()


def test_a_resize_in_place_is_forgotten_by_the_wave_that_moves_the_pod(report: Open) -> None:
    """Not only at the end, where the usage of the nodes is worked out exactly."""
    snapshot = resized(1)
    result = plan(snapshot, 5)
    data = build(snapshot, result, version="1")
    early = {str(step["pod"]) for wave in data["waves"][:-1] for step in wave["steps"] if step["to"] >= 0}
    assert early & data["pods"]["recreated"].keys()
    truth.check(report(data), snapshot, result)


def test_groups_of_pods_tell_the_same(report: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubestow.report.page.pods.MAX_SINGLE_PODS", 0)
    monkeypatch.setattr("kubestow.report.page.pods.MAX_NAMED_PODS", 1)  # the pods of the waves are named all the same
    snapshot = resized(7)
    result = plan(snapshot, 5)
    assert len(result.moves) > 2
    opened = report(build(snapshot, result, version="1"))
    assert truth.check(opened, snapshot, result, grouped=True) > len(snapshot.nodes)


@pytest.mark.parametrize("name", ["peter-sheep-wolf", "rebalance-consolidate"])
def test_instances(report: Open, name: str) -> None:
    snapshot = load([str(INSTANCES / f"{name}.yaml")])
    if name.startswith("rebalance"):
        result: truth.Result = rebalance(snapshot, PlanOptions(("consolidate",), (), Limits(), OPTIONS))
    else:
        result = place(snapshot, OPTIONS)
    opened = report(build(snapshot, result, version="1"))
    truth.check(opened, snapshot, result)
    truth.check_texts(opened, snapshot, result)
    truth.check_containers(opened, snapshot, result)
    opened.quiet()
