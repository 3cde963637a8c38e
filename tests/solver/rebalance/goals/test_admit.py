"""Places for pods that wait: as they are, after moves of others, after evictions of less priority; gangs whole or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.documents.rebalance_plan import Limits
from kubestow.solver.rebalance.goals.admit import admit
from kubestow.solver.rebalance.goals.move_builder import MoveBuilder
from tests.objects import node, pod
from tests.plans import tiny
from tests.solver.rebalance.goals.test_move_builder import accepted, builder_of
from tests.solver.rebalance.problem.test_problem import budget, class_of, gang, near, running, step_names

Object = dict[str, Any]
EVICT = Limits(allowEviction=True)


def _admitted(objects: list[Object], limits: Limits | None = None) -> MoveBuilder:
    builder = builder_of(objects, ["admit"], limits=limits)
    admit(builder)
    return builder


def _steps(builder: MoveBuilder) -> list[tuple[str, str | None, str | None]]:
    return step_names(builder.problem, builder.steps)


def test_who_fits_is_bound_the_highest_priority_first() -> None:
    objects = [node("n1", cpu="1"), pod("low", cpu="600m", priority=0), pod("high", cpu="500m", priority=5), pod("tiny", cpu="400m")]
    assert _steps(_admitted(objects)) == [("high", None, "n1"), ("tiny", None, "n1")]


def _blocked(*ranks: int, cpu: str = "1", new: int = 5) -> list[Object]:
    """Nodes of two CPUs with a pod each, and one of two CPUs that waits."""
    nodes = [node(f"n{i}", cpu="2") for i in range(len(ranks))]
    return [*nodes, *(running(f"p{i}", f"n{i}", cpu=cpu, priority=rank) for i, rank in enumerate(ranks)), pod("new", cpu="2", priority=new)]


def test_others_make_room() -> None:
    builder = _admitted(_blocked(9, 9))
    assert _steps(builder) == [("p0", "n0", "n1"), ("new", None, "n0")]
    builder = _admitted(_blocked(9, 9), Limits(maxMoves=0))
    assert builder.steps == []


@pytest.mark.full
@pytest.mark.parametrize(
    ("ranks", "gone"),
    [((9, 9), []), ((9, 5), []), ((9, 0), ["p1"]), ((4, 9), ["p0"]), ((0, 0), ["p0"])],
)
def test_only_pods_of_less_priority_are_evicted_and_only_if_that_is_allowed(ranks: tuple[int, ...], gone: list[str]) -> None:
    objects = _blocked(*ranks, cpu="1500m")
    assert _admitted(objects).steps == []
    steps = _steps(_admitted(objects, EVICT))
    assert [name for name, _, to in steps if to is None] == gone
    assert (("new", None, f"n{gone[0][1]}") in steps) if gone else not steps


def test_few_pods_are_evicted_rather_than_many() -> None:
    objects = [node("n0", cpu="2"), node("n1", cpu="2"), *(running(f"p{i}", "n0", cpu="900m") for i in range(2))]
    objects += [running("q", "n1", cpu="1800m"), pod("new", cpu="2", priority=1)]
    assert _steps(_admitted(objects, EVICT)) == [("q", "n1", None), ("new", None, "n1")]


def test_no_more_is_evicted_than_limits_and_budgets_allow() -> None:
    objects = [node("n0", cpu="2"), *(running(f"p{i}", "n0", cpu="1", labels={"app": "web"}) for i in range(2))]
    objects.append(pod("new", cpu="2", priority=1))
    assert len(_admitted(objects, EVICT).steps) == 3
    assert _admitted(objects, Limits(allowEviction=True, maxEvictions=1)).steps == []
    assert _admitted([*objects, budget("guard", "web", minAvailable=1)], EVICT).steps == []
    assert len(_admitted([*objects, budget("guard", "web", minAvailable=0)], EVICT).steps) == 3


# --- gangs ------------------------------------------------------------------------------------------------------------------------------


def test_a_gang_is_bound_whole_or_not_at_all() -> None:
    members = gang("train", *(pod(f"g{i}", cpu="1") for i in range(3)))
    assert _admitted([node("n0", cpu="2"), *members]).steps == []
    builder = _admitted([node("n0", cpu="2"), node("n1", cpu="1"), *members])
    assert sorted(_steps(builder)) == [("g0", None, "n0"), ("g0", None, "n0"), ("g0", None, "n1")]


def test_a_gang_that_fails_leaves_its_room_to_others() -> None:
    members = gang("train", *(pod(f"g{i}", cpu="1", priority=9) for i in range(2)))
    assert _steps(_admitted([node("n0", cpu="1"), *members, pod("new", cpu="1")])) == [("new", None, "n0")]


def test_what_a_gang_does_not_need_may_wait() -> None:
    members = gang("train", *(pod(f"g{i}", cpu="1") for i in range(3)))
    for member in members:
        member["metadata"]["annotations"]["kubestow.dev/min-member"] = "2"
    assert len(_admitted([node("n0", cpu="2"), *members]).steps) == 2
    assert _admitted([node("n0", cpu="1"), *members]).steps == []


def test_room_is_made_for_a_gang() -> None:
    members = gang("train", *(pod(f"g{i}", cpu="2", priority=1) for i in range(2)))
    objects = [*(node(f"n{i}", cpu="2") for i in range(2)), *(running(f"p{i}", f"n{i}", cpu="500m") for i in range(2)), *members]
    assert _admitted(objects).steps == []
    steps = _steps(_admitted([*objects, node("n2", cpu="1")]))
    assert sorted(steps) == [("g0", None, "n0"), ("g0", None, "n1"), ("p0", "n0", "n2"), ("p0", "n1", "n2")]
    steps = _steps(_admitted(objects, EVICT))
    assert sum(to is None for _, _, to in steps) == 2
    assert sorted(to or "" for name, _, to in steps if name == "g0") == ["n0", "n1"]


def test_members_that_need_each_other_are_bound_as_a_unit() -> None:
    """Neither can be first: each wants the other near. The first zone has room for one of them only."""
    nodes = [node(f"n{i}", cpu="1", labels={"zone": zone}) for i, zone in enumerate("zyy")]
    members = gang(
        "pair",
        pod("a", cpu="1", labels={"app": "a"}, affinity=near("b", "zone")),
        pod("b", cpu="1", labels={"app": "b"}, affinity=near("a", "zone")),
    )
    builder = _admitted([*nodes, *members])
    assert {to for _, _, to in _steps(builder)} == {"n1", "n2"}
    assert builder.state.counts.sum() == 2
    assert builder.state.broken() == {}
    assert _admitted([*nodes[:2], *members]).steps == []


# --- random clusters --------------------------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("kind", ["admit", "mixed"])
def test_steps_are_accepted_gangs_whole_and_only_lower_priorities_go(kind: str) -> None:
    placed = 0
    for seed in range(40):
        limits = tiny.plan_options(seed, kind)[2]
        builder = _admitted(tiny.cluster(seed, kind), limits)
        problem, priority = builder.problem, builder.problem.cluster.priority
        assert accepted(problem, builder.steps), seed
        for team in problem.cluster.gangs:
            bound = int(builder.state.counts[list(team.classes)].sum())
            assert bound == 0 or bound >= team.needed
        evicted = [int(priority[step.g]) for step in builder.steps if step.b < 0]
        bound_ranks = [int(priority[step.g]) for step in builder.steps if step.a < 0]
        assert not evicted or (limits.allowEviction and max(evicted) < max(bound_ranks))
        placed += bool(bound_ranks)
    assert placed >= 12


def test_nobody_is_evicted_in_vain() -> None:
    """The two lower ones of the node do not make enough room."""
    objects = [node("n0", cpu="3"), *(running(f"p{i}", "n0", cpu="1", priority=rank) for i, rank in enumerate((0, 0, 9)))]
    builder = _admitted([*objects, pod("new", cpu="3", priority=5)], EVICT)
    assert builder.steps == []
    assert (builder.state.counts == builder.problem.start).all()
    builder = _admitted([*objects, pod("new", cpu="2", priority=5)], EVICT)
    assert [to for _, _, to in _steps(builder)] == [None, None, "n0"]
    assert builder.state.counts[class_of(builder.problem, "p2")].sum() == 1
