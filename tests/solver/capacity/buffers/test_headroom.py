"""The most chunks that fit in addition to all real pods, buffer after buffer, compared with brute force."""

from __future__ import annotations

import itertools
import random

import pytest

from kubestow.checker.capacity.buffers import headroom_faults
from kubestow.models.documents.headroom import Headroom
from kubestow.models.documents.placement import SnapshotRef
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.capacity.buffers.headroom import headroom, headroom_with
from kubestow.solver.capacity.buffers.states import in_state
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from tests.buffers import buffer, deployment, nodes, scalable, template
from tests.objects import Object, node, pod


def context() -> RunContext:
    return RunContext.start(Options(time_limit=20, deterministic=True, workers=1))


def room(*things: Object) -> Headroom:
    snapshot = from_objects(things)
    found = headroom(snapshot, "now", context())
    assert faults(snapshot, found) == []
    return found


def faults(snapshot: Snapshot, headroom: Headroom) -> list[str]:
    return [each.why for each in headroom_faults(snapshot, headroom, SnapshotRef("", 0, 0, 0), None)]


def numbers(headroom: Headroom) -> list[tuple[str, int, int, int]]:
    return [(each.buffer, each.fits, each.bound, each.chunks) for each in headroom.buffers]


def test_the_reported_cluster() -> None:
    """Three chunks of 2 CPU for a node of 4."""
    assert numbers(room(*nodes(1), template("t"), buffer("b", "t", 3))) == [("default/b", 2, 2, 3)]


def test_real_pods_come_first() -> None:
    found = room(*nodes(1), template("t"), buffer("b", "t", 2), pod("p", cpu="3", priority=-(2**31)))
    assert numbers(found) == [("default/b", 0, 0, 2)]
    assert [entry.pod for entry in found.assignments] == ["default/p"]


def test_the_first_buffer_by_name_comes_first() -> None:
    both = [template("large", cpu="4"), template("small", cpu="1")]
    found = room(*nodes(1), *both, buffer("a", "large", 1), buffer("b", "small", 4))
    assert numbers(found) == [("default/a", 1, 1, 1), ("default/b", 0, 0, 4)]
    found = room(*nodes(1), *both, buffer("a", "small", 4), buffer("b", "large", 1))
    assert numbers(found) == [("default/a", 4, 4, 4), ("default/b", 0, 0, 1)]


def test_rules_of_the_template_count() -> None:
    """A chunk of a workload whose pods keep apart finds only the node without such a pod."""
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
            ]
        }
    }
    web = deployment("web", replicas=2)
    web["spec"]["template"]["spec"]["affinity"] = apart
    running = pod("web-1", labels={"app": "web"}, node_name="n0", affinity=apart)
    found = room(*nodes(3), web, running, buffer("b", **scalable("web"), replicas=3))
    assert numbers(found) == [("default/b", 2, 2, 3)]


def test_a_real_pod_that_fits_nowhere_is_left() -> None:
    found = room(*nodes(1), template("t"), buffer("b", "t", 2), pod("p", cpu="5"))
    assert (numbers(found), found.left) == ([("default/b", 2, 2, 2)], 1)


def test_no_node_and_no_chunk() -> None:
    assert numbers(room(*nodes(1), template("t"), buffer("b", "t", 0))) == [("default/b", 0, 0, 0)]


def test_beside_a_placement_that_is_known() -> None:
    snapshot = from_objects([*nodes(2), template("t"), buffer("b", "t", 3), pod("p", cpu="2"), pod("q", cpu="2")])
    sure = [entry for entry in headroom(snapshot, "now", context()).assignments if "buffer" not in entry.pod]
    found = headroom_with(snapshot, "now", sure, context())
    assert (found.left, [each.fits for each in found.buffers], [each.bound for each in found.buffers]) == (0, [2], [3])
    assert faults(snapshot, found) == []


def test_time_is_charged() -> None:
    began = context()
    in_state(from_objects([*nodes(1), template("t"), buffer("b", "t", 3)]), "now", began)
    assert began.deadline.elapsed() > 0


# --- brute force ----------------------------------------------------------------------------------------------------------


def tiny(seed: int) -> tuple[list[Object], list[int], list[tuple[int, int]], list[int]]:
    """Return objects and buffers as (CPU of a chunk, chunks). The objects are nodes of random CPUs and pending
    real pods."""
    rng = random.Random(seed)
    free = [rng.randint(2, 7) for _ in range(rng.randint(1, 3))]
    real = [rng.randint(1, 4) for _ in range(rng.randint(0, 2))]
    demands = [(rng.randint(1, 4), rng.randint(0, 3)) for _ in range(rng.randint(1, 2))]
    things = [node(f"n{i}", cpu=str(cpu), memory="64Gi") for i, cpu in enumerate(free)]
    things += [pod(f"p{i}", cpu=str(cpu), priority=len(real) - i) for i, cpu in enumerate(real)]
    for i, (cpu, chunks) in enumerate(demands):
        things += [template(f"t{i}", cpu=str(cpu)), buffer(f"b{i}", f"t{i}", chunks)]
    return things, free, demands, real


def brute(free: list[int], demands: list[tuple[int, int]], real: list[int]) -> tuple[int, ...]:
    """The best of all ways to place or leave every pod: real pods in the order of their priorities, then buffer after buffer."""
    sizes = [*real, *(cpu for cpu, chunks in demands for _ in range(chunks))]
    tiers = [*range(len(real)), *(len(real) + k for k, (_, chunks) in enumerate(demands) for _ in range(chunks))]
    best: tuple[int, ...] = ()
    for way in itertools.product(range(-1, len(free)), repeat=len(sizes)):
        residual = list(free)
        counts = [0] * (len(real) + len(demands))
        for size, tier, at in zip(sizes, tiers, way, strict=True):
            if at >= 0:
                residual[at] -= size
                counts[tier] += 1
        if min(residual) >= 0:
            best = max(best, tuple(counts))
    return best[len(real) :]


def compare(seed: int) -> None:
    things, free, demands, real = tiny(seed)
    found = room(*things)
    expected = brute(free, demands, real)
    assert tuple(each.fits for each in found.buffers) == expected, seed
    assert all(each.fits == each.bound for each in found.buffers), seed


def test_a_few_tiny_clusters_against_brute_force() -> None:
    for seed in range(6):
        compare(seed)


@pytest.mark.full
def test_tiny_clusters_against_brute_force() -> None:
    for seed in range(6, 60):
        compare(seed)
