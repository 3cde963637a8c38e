"""The headroom after failures from one shared instance equals that of a separately compiled instance for each failure."""

from __future__ import annotations

import random

import pytest

from kubestow.checker.capacity.survival import headroom_faults
from kubestow.models.documents.headroom import Headroom
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.capacity.buffers.headroom import headroom
from kubestow.solver.capacity.survive.buffers import after_failures
from kubestow.solver.capacity.survive.failures import after, domains
from kubestow.solver.capacity.survive.options import SurviveOptions
from kubestow.solver.capacity.survive.survive import survive
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from tests.buffers import buffer, template
from tests.objects import Object, node, pod

ZONE = "topology.kubernetes.io/zone"
OPTIONS = Options(time_limit=30, deterministic=True, workers=1, causes=False)


def apart(app: str) -> Object:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(app: str) -> list[Object]:
    selector = {"matchLabels": {"app": app}}
    return [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]


def tiny(seed: int) -> list[Object]:
    """Three or four nodes in two zones, with pods that run, some of them apart; and two buffers, some apart or spread, too."""
    rng = random.Random(seed)
    number = rng.randint(3, 4)
    things = [node(f"n{i}", cpu=str(rng.randint(3, 6)), memory="64Gi", labels={ZONE: "ab"[i % 2]}) for i in range(number)]
    used = [0] * number
    for i in range(rng.randint(2, 6)):
        cpu, at = rng.randint(1, 2), rng.randrange(number)
        if used[at] + cpu > 3:
            continue
        used[at] += cpu
        app = rng.choice("xy")
        affinity = apart(app) if rng.random() < 0.2 and not any(t.get("spec", {}).get("nodeName") == f"n{at}" for t in things) else None
        owner = "ReplicaSet/r" if rng.random() < 0.9 else None
        things.append(pod(f"p{i}", cpu=str(cpu), node_name=f"n{at}", owner=owner, labels={"app": app}, affinity=affinity))
    if rng.random() < 0.3:
        things.append(pod("waits", cpu="1", owner="ReplicaSet/r"))
    for k in range(2):
        app = rng.choice("xyz")
        more: Object = {"affinity": apart(app)} if rng.random() < 0.3 else {"spread": spread(app)} if rng.random() < 0.4 else {}
        things += [template(f"t{k}", cpu=str(rng.randint(1, 3)), labels={"app": app}, **more), buffer(f"b{k}", f"t{k}", rng.randint(0, 3))]
    return things


def rooms(headroom: Headroom) -> list[tuple[str, int, int, int]]:
    return [(each.buffer, each.chunks, each.fits, each.bound) for each in headroom.buffers]


def compare(seed: int, at_once: int = 1, fail: str = "node") -> int:
    """Compare both ways for every failure, and have the checker judge; return the failures after which not everything fits."""
    snapshot = from_objects(tiny(seed))
    request = SurviveOptions(fail, at_once)
    document = survive(snapshot, request, OPTIONS)
    document.headroom, notes = after_failures(snapshot, request, document.outcomes, RunContext.start(OPTIONS))
    assert notes == []
    assert list(headroom_faults(snapshot, document)) == [], seed
    nodes = domains(snapshot, request)
    short = 0
    for found in document.headroom:
        gone = [name for domain in found.state.split(",") for name in nodes[domain]]
        expected = headroom(after(snapshot, gone, request).snapshot, found.state, RunContext.start(OPTIONS))
        assert (rooms(found), found.left) == (rooms(expected), expected.left), (seed, found.state)
        short += not found.whole
    return short


def at_random(seed: int) -> int:
    return compare(seed, 1 + seed % 2, "zone" if seed % 3 == 0 and seed % 2 == 0 else "node")


def test_a_few_tiny_clusters() -> None:
    assert [compare(seed) for seed in (0, 2)] == [0, 3]


@pytest.mark.full
def test_tiny_clusters() -> None:
    assert [at_random(seed) for seed in (4, 5, 6)] == [0, 0, 2]


@pytest.mark.slow
def test_more_tiny_clusters() -> None:
    assert sum(at_random(seed) for seed in range(7, 60)) > 0


def test_pods_with_volumes_are_compiled_by_themselves() -> None:
    volume: Object = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]}
    snapshot = from_objects([node("n0"), node("n1"), template("t", cpu="1", **volume), buffer("b", "t", 1)])
    found, _ = after_failures(snapshot, SurviveOptions(), [], RunContext.start(OPTIONS))
    assert [rooms(each) for each in found] == [[("default/b", 1, 0, 0)]] * 2


def test_a_short_search_says_so() -> None:
    snapshot = from_objects([node("n0"), node("n1"), template("t", cpu="1"), buffer("b", "t", 1)])
    over = RunContext.start(OPTIONS)
    over.stop.set()
    assert after_failures(snapshot, SurviveOptions(), [], over) == ([], ["the headroom of CapacityBuffers is known in 0 of 2 failures"])
