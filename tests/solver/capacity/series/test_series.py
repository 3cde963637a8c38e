"""The purchase for several snapshots is the cheapest that suffices for each, by brute force, and names the
deciding snapshots."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.checker.capacity.series import check_series, parts
from kubestow.models.catalogue.catalogue import Catalogue, of_shapes
from kubestow.models.catalogue.money import MILLIONTHS_PER_UNIT
from kubestow.models.documents import capacity
from kubestow.models.documents.catalogue import Shape
from kubestow.models.documents.sizing import Sizing
from kubestow.models.edits.edits import apply
from kubestow.models.snapshot.capture_info import Capture
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.capacity.series.series import size_series
from kubestow.solver.capacity.size.options import SizeOptions
from kubestow.solver.capacity.size.size import size
from kubestow.solver.runtime.options import Options
from tests.objects import node, pod
from tests.solver.capacity.size import tiny

OPTIONS = Options(time_limit=30.0, workers=1)
SHAPES = (
    Shape("cpu", {"cpu": "8", "memory": "8Gi", "pods": 20}, ("z1",), "1"),
    Shape("memory", {"cpu": "2", "memory": "32Gi", "pods": 20}, ("z1",), "1"),
    Shape("both", {"cpu": "8", "memory": "32Gi", "pods": 20}, ("z1",), "1.5"),
)


def offered(*shapes: Shape) -> Catalogue:
    problems: list[str] = []
    found = Catalogue(of_shapes(shapes or SHAPES, problems))
    assert not problems
    return found


def moments(*clusters: list[dict[str, Any]]) -> list[Snapshot]:
    found = [from_objects(objects) for objects in clusters]
    for k, snapshot in enumerate(found):
        snapshot.capture = Capture("prod", f"2026-11-{k + 1:02}T20:00:00Z")
    return found


def sized(snapshots: list[Snapshot], catalogue: Catalogue | None = None, request: SizeOptions | None = None, **options: Any) -> Sizing:
    chosen = Options(**{"time_limit": 30.0, "workers": 1, **options})
    return size_series(snapshots, catalogue or offered(), [request or SizeOptions()] * len(snapshots), chosen)


def bought(sizing: Sizing) -> dict[str, int]:
    counts: dict[str, int] = {}
    for purchase in sizing.buy:
        counts[purchase.shape] = counts.get(purchase.shape, 0) + purchase.count
    return counts


def deciding(sizing: Sizing) -> list[int]:
    assert sizing.series is not None
    return [i for i, moment in enumerate(sizing.series) if moment.decides]


def busy(pods: int, cpu: str, memory: str) -> list[dict[str, Any]]:
    return [pod(f"p{i}", cpu=cpu, memory=memory, owner="ReplicaSet/x") for i in range(pods)]


def agree(kind: str, seed: int) -> None:
    snapshots, catalogue, requests = tiny.series(seed, kind)
    found = size_series(snapshots, catalogue, requests, OPTIONS)
    assert found.status in ("optimal", "infeasible"), "tiny questions are decided"
    best = tiny.brute_series(snapshots, catalogue, requests, OPTIONS, max_nodes=5)
    got = None if found.status == "infeasible" else (round(found.cost.value * MILLIONTHS_PER_UNIT), found.nodes.value)
    assert got == best, f"{kind} {seed}: {requests}"


@pytest.mark.parametrize("kind", ["resources", "static", "anti"])
def test_as_cheap_as_the_cheapest_of_all_purchases_that_do_for_a_few_series(kind: str) -> None:
    agree(kind, 0)


@pytest.mark.full
@pytest.mark.parametrize("kind", tiny.KINDS)
def test_as_cheap_as_the_cheapest_of_all_purchases_that_do_for_every_snapshot(kind: str) -> None:
    agree(kind, 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", tiny.KINDS)
@pytest.mark.parametrize("tens", range(2))
def test_as_cheap_as_the_cheapest_of_all_purchases_on_160_series(kind: str, tens: int) -> None:
    for seed in range(10 * tens + 2, 10 * tens + 12):
        agree(kind, seed)


def test_one_mix_for_a_moment_of_cpu_and_one_of_memory_beats_what_both_need_alone() -> None:
    snapshots = moments(busy(8, "1", "1Gi"), busy(8, "250m", "4Gi"))
    found = sized(snapshots)
    assert [bought(size(each, offered(), SizeOptions(), OPTIONS)) for each in snapshots] == [{"cpu": 1}, {"memory": 1}]
    assert (found.status, bought(found), found.cost.value) == ("optimal", {"both": 1}, 1.5)  # both nodes together cost 2
    assert deciding(found) == [0, 1]
    assert found.series is not None
    assert [moment.alone and moment.alone.value for moment in found.series] == [1.0, 1.0]


def test_the_snapshot_that_alone_needs_as_much_decides_and_the_document_is_of_it() -> None:
    found = sized(moments(busy(2, "1", "1Gi"), busy(16, "1", "1Gi"), busy(7, "1", "1Gi")))
    assert (found.status, bought(found), deciding(found), found.of_moment) == ("optimal", {"cpu": 2}, [1], 1)
    assert found.snapshot.capturedAt == "2026-11-02T20:00:00Z"


def test_a_moment_that_decides_nothing_is_left_out_of_those_that_decide_together() -> None:
    found = sized(moments(busy(8, "1", "1Gi"), busy(3, "1", "1Gi"), busy(8, "250m", "4Gi"), busy(2, "250m", "4Gi")))
    assert (found.status, deciding(found)) == ("optimal", [0, 2])


def test_what_no_purchase_does_for_names_the_snapshot() -> None:
    found = sized(moments(busy(2, "1", "1Gi"), [pod("huge", cpu="9")]))
    assert (found.status, found.buy, found.placement, deciding(found)) == ("infeasible", [], None, [1])
    assert [misfit.pods for misfit in found.misfits] == [["default/huge"]]
    assert found.notes == ["no purchase places all pods of the snapshot of 2026-11-02T20:00:00Z"]


def test_snapshots_that_one_purchase_each_does_for_may_have_none_together() -> None:
    found = sized(moments(busy(8, "1", "1Gi"), busy(8, "250m", "4Gi")), offered(*SHAPES[:2]), SizeOptions(kinds=1), time_limit=20.0)
    assert (found.status, found.cost.value) == ("optimal", 4.0)  # four of `memory` have the CPU
    few = tuple(Shape(shape.name, shape.allocatable, shape.zones, shape.price, most=1) for shape in SHAPES[:2])
    found = sized(moments(busy(8, "1", "1Gi"), busy(8, "250m", "4Gi")), offered(*few), SizeOptions(kinds=1))
    assert (found.status, found.buy, found.placement) == ("infeasible", [], None)


def test_nodes_that_are_there_differ_from_moment_to_moment() -> None:
    pods = busy(8, "1", "100Mi")
    found = sized(moments([node("old", cpu="8"), *pods], pods, [node("new", cpu="4"), *pods]))
    assert (found.status, bought(found), deciding(found)) == ("optimal", {"cpu": 1}, [1, 2])
    assert found.series is not None
    assert [moment.alone and moment.alone.value for moment in found.series] == [0.0, 1.0, 1.0]


def test_where_nothing_waits_nothing_is_bought() -> None:
    found = sized(moments([node("n", cpu="4"), pod("p", cpu="1")], [node("n", cpu="4")]))
    assert (found.status, found.buy, found.cost.value) == ("optimal", [], 0.0)


def test_deterministic_runs_are_the_same() -> None:
    sizes = [[(300 + 37 * (i % (9 - k)), 500 + 91 * (i % (7 + k))) for i in range(45)] for k in range(2)]
    clusters = [[pod(f"p{i}", cpu=f"{cpu}m", memory=f"{memory}Mi") for i, (cpu, memory) in enumerate(each)] for each in sizes]
    first, second = (sized(moments(*clusters), deterministic=True, time_limit=1.0) for _ in range(2))
    assert first == second
    assert first.placement is not None


# --- the check --------------------------------------------------------------------------------------------------------------------


def judged(sizing: Sizing, snapshots: list[Snapshot]) -> list[str]:
    read = {each.capture.time: each for each in snapshots if each.capture is not None}
    clusters = {}
    for part in parts(sizing):
        assert part.snapshot.edits is not None
        time = part.snapshot.capturedAt or ""
        clusters[time] = read[time], apply(read[time], None, part.snapshot.edits).snapshot
    return [violation.why for violation in check_series(clusters, sizing).violations]


def lies(sizing: Sizing) -> dict[str, Any]:
    """Return by fault a change of a document, and the words of the fault."""
    series = sizing.series or []
    first, second = series
    other = second if first.placement is None else first
    placement, alone = other.placement, other.alone
    assert placement is not None
    assert alone is not None

    def dear() -> None:
        alone.bound = alone.value = 9.0

    def undecided() -> None:
        sizing.cost.bound, sizing.status, other.decides = 1.0, "feasible", False

    def overdecided() -> None:
        own = (second if other is first else first).alone
        assert own is not None
        sizing.cost.bound, sizing.status = own.bound, "feasible"
        alone.bound, other.decides = 0.0, True

    def of_another() -> None:
        for moment in series:
            moment.decides = moment is other
            if moment.alone is not None:
                moment.alone.bound = 0.0

    def fewer() -> None:
        other.buy[0].count -= 1

    def elsewhere() -> None:
        second.snapshot.cluster = "dev"

    return {
        "in the snapshot of": placement.assignments.pop,
        "other nodes are bought": fewer,
        "is said to need from": dear,
        "not in the order of their times": series.reverse,
        "is said not to decide": undecided,
        "and it is said to decide": overdecided,
        "which is said not to decide": of_another,
        "of several clusters": elsewhere,
    }


@pytest.mark.parametrize("words", list(lies(sized(moments(busy(8, "1", "1Gi"), busy(8, "250m", "4Gi"))))))
def test_the_checker_finds_what_is_wrong_with_a_series(words: str) -> None:
    snapshots = moments(busy(8, "1", "1Gi"), busy(8, "250m", "4Gi"))
    found = sized(snapshots)
    again = capacity.from_builtins(capacity.to_builtins(found), "Sizing")
    assert isinstance(again, Sizing)
    assert judged(again, snapshots) == []
    lies(again)[words]()
    assert any(words in why for why in judged(again, snapshots)), judged(again, snapshots)
