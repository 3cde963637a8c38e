"""The headroom of CapacityBuffers in documents about capacity: what the engines say holds, and each lie is found."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from kubestow.checker.capacity.document import check_capacity
from kubestow.models.catalogue.catalogue import Catalogue, of_shapes
from kubestow.models.documents.catalogue import Shape
from kubestow.models.documents.placement import Assignment, Edits
from kubestow.models.edits.edits import apply
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.runtime.options import Options
from tests.buffers import buffer, deployment, nodes, scalable, template
from tests.checker.capacity.originals import copy
from tests.objects import Object, node, pod

Lie = Callable[[Any], object]
OPTIONS = Options(time_limit=20, deterministic=True, workers=1)
ROOM: dict[str, str | int | float] = {"cpu": "4", "memory": "16Gi", "pods": "110"}


def cluster() -> list[Object]:
    """Two nodes of 4 CPU, one of them half used; a buffer of 3 chunks of 2 CPU, and one whose reference is missing."""
    web = pod("web-0", cpu="2", node_name="n0", owner="ReplicaSet/web")
    return [*nodes(2), web, template("t"), buffer("b", "t", 3), buffer("gone", "nil", 1)]


@cache
def fit() -> tuple[Snapshot, Snapshot, Any]:
    from kubestow.solver.capacity.fit.fit import fit as engine

    before = from_objects(cluster())
    manifests = from_objects([deployment("more", "2", replicas=1)])
    found = engine(before, manifests, OPTIONS, edits=Edits(withoutPending=True))
    assert found.snapshot.edits is not None
    return before, apply(before, manifests, found.snapshot.edits).snapshot, found


@cache
def survival() -> tuple[Snapshot, Snapshot, Any]:
    from kubestow.solver.capacity.survive.answer import Wishes, answer
    from kubestow.solver.capacity.survive.options import SurviveOptions

    before = from_objects(cluster())
    return before, before, answer(before, SurviveOptions(), OPTIONS, Wishes(ways=False, remedy=False))


@cache
def upgrade() -> tuple[Snapshot, Snapshot, Any]:
    from kubestow.solver.capacity.upgrade.pool import UpgradeOptions
    from kubestow.solver.capacity.upgrade.upgrade import upgrade as engine

    before = from_objects(cluster())
    return before, before, engine(before, UpgradeOptions(pool="pool=a", surge="0", max_unavailable="1", options=OPTIONS))


@cache
def sizing(chunks: int = 5, survive: bool = False) -> tuple[Snapshot, Snapshot, Any]:
    from kubestow.solver.capacity.size.options import SizeOptions
    from kubestow.solver.capacity.size.size import size
    from kubestow.solver.capacity.survive.options import SurviveOptions

    before = from_objects([*cluster()[:4], buffer("b", "t", chunks), pod("p", cpu="3", owner="ReplicaSet/p")])
    problems: list[str] = []
    offered = Catalogue(of_shapes([Shape("m4", ROOM, ("a",), 0.2)], problems))
    found = size(before, offered, SizeOptions(survive=SurviveOptions() if survive else None), OPTIONS)
    assert found.snapshot.edits is not None
    return before, apply(before, None, found.snapshot.edits).snapshot, found


def rooms(document: Any) -> list[list[tuple[str, str, int, int, int]]]:
    return [[(h.state, b.buffer, b.fits, b.bound, b.chunks) for b in h.buffers if b.problem is None] for h in document.headroom]


def test_a_fit_says_what_is_left_with_all_replicas() -> None:
    *_, found = fit()
    assert rooms(found) == [[("now", "default/b", 3, 3, 3)], [("placed", "default/b", 0, 0, 3)]]


def test_a_survival_says_what_fits_after_each_failure() -> None:
    *_, found = survival()
    assert rooms(found) == [[("n0", "default/b", 1, 1, 3)], [("n1", "default/b", 1, 1, 3)]]


def test_an_upgrade_says_what_fits_while_nodes_are_missing() -> None:
    *_, found = upgrade()
    assert rooms(found) == [[("1", "default/b", 1, 1, 3)], [("2", "default/b", 1, 1, 3)]]


def test_a_sizing_holds_the_chunks_and_says_what_they_cost() -> None:
    """p needs a node's 3 CPU: 3 CPU are left in pieces for one chunk, and two nodes more hold four."""
    *_, found = sizing()
    assert [(b.fits, b.chunks) for b in found.buffers] == [(5, 5)]
    assert (found.cost.value, found.cost.bound) == (0.4, 0.4)
    assert (found.withoutBuffers.value, found.withoutBuffers.bound) == (0.0, 0.0)
    assert [(each.workload, each.cost) for each in found.workloads if each.cost] == [("CapacityBuffer default/b", 0.4)]


def test_a_sizing_that_survives_leaves_the_room_of_chunks_to_real_pods() -> None:
    before, edited, found = sizing(2, survive=True)
    assert found.survival is not None
    assert found.survival.certified
    assert rooms(found.survival) != []
    assert check_capacity(before, edited, copy(found)).violations == []


@pytest.mark.parametrize("made", [fit, survival, upgrade, sizing])
def test_what_the_engines_say_holds(made: Callable[[], tuple[Snapshot, Snapshot, Any]]) -> None:
    before, edited, found = made()
    assert check_capacity(before, edited, copy(found)).violations == []


def first(change: Callable[[Any], object]) -> Lie:
    """Change the room of the first buffer in the first state."""
    return lambda document: change(document.headroom[0].buffers[0])


def put(**fields: Any) -> Callable[[Any], None]:
    def change(thing: Any) -> None:
        for name, value in fields.items():
            setattr(thing, name, value)

    return change


def more(name: str, by: int) -> Callable[[Any], None]:
    return lambda thing: setattr(thing, name, getattr(thing, name) + by)


LIES: dict[str, tuple[Lie, str]] = {
    "more chunks fit": (first(more("fits", 1)), "chunks of default/b are said to fit"),
    "fewer are asked for": (first(put(chunks=2, fits=1, bound=1)), "is said to ask for 2 chunks, it asks for 3"),
    "the bound is below": (first(more("bound", -1)), "are said to fit, at most"),
    "it asks for nothing": (first(put(problem="none")), "is said to ask for nothing, and has 3 chunks"),
    "the other asks for something": (lambda d: put(problem=None)(d.headroom[0].buffers[1]), "is said to ask for 0 chunks, it asks for 1"),
    "a buffer is left out": (lambda d: d.headroom[0].buffers.pop(), "the buffers are said to be default/b, they are"),
    "one chunk more on a node": (
        lambda d: d.headroom[0].assignments.append(Assignment("default/capacity-buffer-b-9", "n0", 9)),
        "there is no such pod",
    ),
    "a node that is full": (
        lambda d: [put(node="n0" if entry.node != "n0" else "n1")(entry) for entry in d.headroom[0].assignments],
        "CapacityBuffer, ",
    ),
    "a real pod is left": (lambda d: put(left=1)(d.headroom[0]), "real pods are said to be left"),
    "another state": (lambda d: put(state="else")(d.headroom[0]), ""),
    "a state twice": (lambda d: d.headroom.append(d.headroom[0]), "twice"),
}


@pytest.mark.parametrize("name", LIES)
@pytest.mark.parametrize("made", [fit, survival, upgrade])
def test_each_lie_is_found(made: Callable[[], tuple[Snapshot, Snapshot, Any]], name: str) -> None:
    before, edited, found = made()
    document = copy(found)
    lie, told = LIES[name]
    lie(document)
    violations = check_capacity(before, edited, document).violations
    assert any(told in each.why for each in violations), violations


def test_a_replica_without_a_place() -> None:
    before, edited, found = fit()
    document = copy(found)
    document.headroom[1].assignments.pop()
    document.headroom[1].left += 1
    assert any("replicas that are said to fit have no place" in each.why for each in check_capacity(before, edited, document).violations)


def test_a_pod_that_comes_back_without_a_place() -> None:
    before, edited, found = survival()
    document = copy(found)
    document.headroom[0].assignments = [each for each in document.headroom[0].assignments if "web" not in each.pod]
    document.headroom[0].left = 1
    assert any("which is survived" in each.why for each in check_capacity(before, edited, document).violations)


@pytest.mark.parametrize(
    ("lie", "told"),
    [
        (lambda d: more("fits", -1)(d.buffers[0]), "chunks of default/b are said to fit"),
        (lambda d: put(buffers=None)(d), "contradict each other"),
        (lambda d: put(buffers=[])(d), "the buffers are others"),
        (lambda d: put(chunks=4, fits=4, bound=4)(d.buffers[0]), "it asks for 5"),
    ],
)
def test_lies_of_a_sizing(lie: Lie, told: str) -> None:
    before, edited, found = sizing()
    document = copy(found)
    lie(document)
    assert any(told in each.why for each in check_capacity(before, edited, document).violations)


@pytest.mark.parametrize(
    ("things", "chunks"),
    [
        ([template("t"), buffer("b", "t", limits={"cpu": "5"})], 2),
        ([template("t"), buffer("b", "t", 1, limits={"cpu": "5"})], 1),
        ([deployment("w", replicas=10), buffer("b", **scalable("w"), percentage=33)], 4),
        ([deployment("w", replicas=10, status=3), buffer("b", **scalable("w"), percentage=33)], 1),
        ([deployment("w", replicas=10), buffer("b", **scalable("w"), percentage=33, replicas=6)], 6),
        ([template("t"), buffer("b", "t", 3, status={"replicas": 2})], 2),
    ],
)
def test_the_checker_counts_as_the_engine_does(things: list[Object], chunks: int) -> None:
    from kubestow.solver.capacity.buffers.headroom import headroom
    from kubestow.solver.runtime.run_context import RunContext
    from tests.solver.capacity.buffers.test_headroom import faults

    snapshot = from_objects([node("n", cpu="64"), *things])
    found = headroom(snapshot, "now", RunContext.start(OPTIONS))
    assert [each.chunks for each in found.buffers] == [chunks]
    assert faults(snapshot, found) == []
    found.buffers[0].chunks = found.buffers[0].bound = chunks + 1
    assert faults(snapshot, found) == [f"now: default/b is said to ask for {chunks + 1} chunks, it asks for {chunks}"]
