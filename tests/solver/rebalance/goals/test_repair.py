"""Broken rules mended by few moves, greedily: never more broken than before, and evictions only where a rule asks for them."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.documents.rebalance_plan import Limits
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.rebalance.goals.move_builder import MoveBuilder
from kubestow.solver.rebalance.goals.repair import repair
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.rebalance import rebalance
from kubestow.solver.runtime.options import Engine, Options
from tests.objects import node, pod
from tests.plans import tiny
from tests.solver.rebalance.goals.test_move_builder import accepted, builder_of
from tests.solver.rebalance.problem.test_problem import HOST, apart, budget, case_of, even, near, running, step_names

Object = dict[str, Any]


def _repaired(objects: list[Object], limits: Limits | None = None, drain: tuple[str, ...] = ()) -> MoveBuilder:
    builder = builder_of(objects, ["repair"], drain, limits)
    repair(builder)
    assert accepted(builder.problem, builder.steps)
    return builder


def _steps(builder: MoveBuilder) -> list[tuple[str, str | None, str | None]]:
    return step_names(builder.problem, builder.steps)


def _pair(during: str, *ranks: int, nodes: int = 1) -> list[Object]:
    """Two pods on n0; the first one's anti-affinity is against the second."""
    first = running("a", "n0", labels={"app": "a"}, affinity=apart("b", during=during), priority=ranks[0])
    return [*(node(f"n{i}") for i in range(nodes)), first, running("b", "n0", labels={"app": "b"}, priority=ranks[1])]


def test_one_of_two_that_keep_apart_moves() -> None:
    builder = _repaired(_pair("Ignored", 0, 0, nodes=2))
    assert len(builder.steps) == 1
    assert builder.state.broken() == {}


def test_the_cheap_one_of_two_moves() -> None:
    for dear in (0, 1):
        objects = _pair("Ignored", 0, 0, nodes=2)
        objects[2 + dear]["metadata"]["annotations"] = {"kubestow.dev/move-cost": "9"}
        assert [name for name, _, _ in _steps(_repaired(objects))] == ["ba"[dear]]


def test_a_pod_goes_where_its_rules_hold() -> None:
    nodes = [node("n0"), node("n1", labels={"disk": "hdd"}), node("n2", labels={"disk": "ssd"})]
    builder = _repaired([*nodes, running("db", "n0", selector={"disk": "ssd"})])
    assert _steps(builder) == [("db", "n0", "n2")]


def test_an_overcommitted_node_loses_what_is_too_much() -> None:
    objects = [node("n0", cpu="2"), node("n1"), *(running(f"p{i}", "n0", cpu="600m") for i in range(4))]
    builder = _repaired(objects)
    assert builder.state.broken() == {}
    assert len(builder.steps) == 1


def test_a_spread_is_evened_by_one_move() -> None:
    web = [running(f"p{i}", "n0", labels={"app": "web"}, spread=even("web", HOST)) for i in range(3)]
    builder = _repaired([node("n0"), node("n1"), *web])
    assert _steps(builder) == [("p0", "n0", "n1")]


def test_others_make_way() -> None:
    nodes = [node("n0"), node("n1", cpu="1", labels={"disk": "ssd"}), node("n2", cpu="1")]
    objects = [*nodes, running("db", "n0", cpu="800m", selector={"disk": "ssd"}), running("q", "n1", cpu="500m")]
    assert _steps(_repaired(objects)) == [("q", "n1", "n2"), ("db", "n0", "n1")]
    builder = _repaired(objects, Limits(maxMoves=1))
    assert _steps(builder) == []


@pytest.mark.parametrize(
    ("during", "allowed", "ranks", "gone"),
    [
        ("Required", True, (0, 0), ["a"]),
        ("Required", True, (9, 0), ["b"]),
        ("Required", True, (0, 9), ["a"]),
        ("Required", False, (0, 0), []),
        ("Ignored", True, (0, 0), []),
    ],
)
def test_who_finds_no_place_goes_for_good_only_where_its_rule_says_so(
    during: str, allowed: bool, ranks: tuple[int, int], gone: list[str]
) -> None:
    builder = _repaired(_pair(during, *ranks), Limits(allowEviction=allowed))
    assert _steps(builder) == [(name, "n0", None) for name in gone]
    assert bool(builder.state.broken()) is not bool(gone)


def test_evictions_stop_at_their_limit_and_at_the_budget() -> None:
    objects = [node("n0"), *(running(f"p{i}", "n0", labels={"app": "x"}, affinity=apart("x", during="Required")) for i in range(4))]
    for extra, limits, gone in (
        ([], Limits(allowEviction=True), 3),
        ([], Limits(allowEviction=True, maxEvictions=1), 1),
        ([budget("guard", "x", minAvailable=2)], Limits(allowEviction=True), 2),
    ):
        assert [to for _, _, to in _steps(_repaired([*objects, *extra], limits))] == [None] * gone


def test_what_cannot_be_mended_is_left_alone() -> None:
    objects = [node("n0"), node("n1"), pod("bare", node_name="n0", affinity=near("x")), running("p", "n1")]
    builder = _repaired(objects)
    assert (builder.steps, builder.state.broken()) == ([], {"InterPodAffinity": 1})


@pytest.mark.full
@pytest.mark.parametrize("kind", ["repair", "tight", "mixed"])
def test_never_more_is_broken_than_before(kind: str) -> None:
    mended = 0
    for seed in range(40):
        goals, drain, limits = tiny.plan_options(seed, kind)
        if goals != ("repair",):
            goals, drain = ("repair",), ()
        before = sum(PlanState(case_of(tiny.cluster(seed, kind), goals, drain, limits)).broken().values())
        builder = _repaired(tiny.cluster(seed, kind), limits, drain)
        after = sum(builder.state.broken().values())
        assert after < before if builder.steps else after == before, seed
        mended += after < before
    assert mended >= 8


@pytest.mark.parametrize("engine", ["greedy", "exact"])
def test_of_those_that_may_go_the_lowest_goes_first_and_then_moves_are_tried_again(engine: Engine) -> None:
    """Both pods of a pair may go; once the lower one has, the other pair comes apart by a move."""
    rule = apart("loud", during="Required")
    quiet = [pod(f"quiet-{i}", node_name=f"n{i}", owner="ReplicaSet/quiet", priority=9, affinity=rule) for i in (1, 2)]
    noisy = [
        pod(f"noisy-{i}", node_name=f"n{i}", owner="ReplicaSet/noisy", labels={"app": "loud"}, priority=p) for i, p in ((1, 0), (2, 9))
    ]
    plan_options = PlanOptions(("repair",), (), Limits(allowEviction=True), Options(engine=engine, time_limit=20.0))
    found = rebalance(from_objects([node("n1"), node("n2"), *quiet, *noisy]), plan_options)
    assert [entry.pod for entry in found.evictions] == ["default/noisy-1"]
    assert [(tier.tier, tier.priority, tier.value) for tier in found.objective] == [
        ("rules", None, 0), ("evictions", 9, 0), ("evictions", 0, -1), ("moves", None, -1),
    ]  # fmt: skip


@pytest.mark.parametrize("engine", ["greedy", "exact"])
def test_who_has_to_be_near_a_pod_that_goes_goes_first(engine: Engine) -> None:
    """c needs a, a needs b, which is gone: nobody is worse off in between, and nothing is broken in the end."""
    pods = [running(x, "n0", labels={"app": x}, affinity=near(y, during="Required")) for x, y in (("c", "a"), ("a", "b"))]
    plan_options = PlanOptions(("repair",), limits=Limits(allowEviction=True), options=Options(engine=engine))
    plan = rebalance(from_objects([node("n0"), *pods]), plan_options)
    assert [(e.wave, e.pod) for e in plan.evictions] == [(1, "default/c"), (2, "default/a")]
    assert plan.objective[0].value == 0
    first, second = (e.reason for e in plan.evictions)
    assert first == "must run near default/a, which leaves"
    assert second == "breaks InterPodAffinity on n0 (a rule that holds during execution)"


def test_who_moves_along_names_whom_it_follows() -> None:
    pods = [running(x, "n0", labels={"app": x}, affinity=near(y, during="Required")) for x, y in (("c", "a"), ("a", "b"))]
    plan = rebalance(from_objects([node("n0"), node("n1"), *pods, running("b", "n1", labels={"app": "b"})]), PlanOptions(("repair",)))
    reasons = {move.pod: move.reason for move in plan.moves if not move.stopover}
    assert reasons.get("default/c", "must run near default/a, which leaves") == "must run near default/a, which leaves"


def test_of_equals_the_youngest_goes() -> None:
    pods = [running(f"a{i}", "n0", labels={"app": "a"}, affinity=apart("a", during="Required")) for i in range(3)]
    for each, day in zip(pods, (1, 3, 2), strict=True):
        each["metadata"]["creationTimestamp"] = f"2026-01-0{day}T00:00:00Z"
    plan = rebalance(from_objects([node("n0"), *pods]), PlanOptions(("repair",), limits=Limits(allowEviction=True)))
    assert sorted(e.pod for e in plan.evictions) == ["default/a1", "default/a2"]


def test_nobody_goes_for_good_for_a_pod_that_is_being_deleted() -> None:
    leaving = running("b", "n0", labels={"app": "b"})
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    owner = running("a", "n0", labels={"app": "a"}, affinity=apart("b", during="Required"))
    plan = rebalance(from_objects([node("n0"), owner, leaving]), PlanOptions(("repair",), limits=Limits(allowEviction=True)))
    assert plan.evictions == []
