"""Obstacles to goals that a plan does not reach: every kind of sentence."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.documents.rebalance_plan import Limits, Obstacle
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.problem.problem import Step, read_problem
from kubestow.solver.rebalance.result import PlanSearchResult
from kubestow.solver.rebalance.tiers.objective import PlanObjective
from kubestow.solver.rebalance.unmet_goals import MAX_LISTED_OBSTACLES, obstacles
from tests.objects import node, pod
from tests.solver.rebalance.problem.test_problem import apart, budget, class_of, gang, near, running

Object = dict[str, Any]
Steps = tuple[tuple[str, int, int], ...]


def _found(
    objects: list[Object], *goals: str, drain: tuple[str, ...] = (), limits: Limits | None = None,
    steps: Steps = (), stuck: Steps = (), proved: bool = False,
) -> list[Obstacle]:  # fmt: skip
    """After steps (pod, from, to). ``stuck``: those that wait for each other; ``proved``: the plan's bounds are its values."""
    plan_options = PlanOptions(goals, drain, limits or Limits())
    problem = read_problem(from_objects(objects), plan_options)
    values = PlanObjective(problem, goals)
    chosen_steps = [Step(class_of(problem, name), a, b) for name, a, b in steps]
    reached = values.of_steps(chosen_steps)
    waiting = [Step(class_of(problem, name), a, b) for name, a, b in stuck]
    found = PlanSearchResult(chosen_steps, reached, list(reached) if proved else values.bounds(), stuck=waiting)
    return obstacles(problem, values, found, plan_options)


def _told(*args: Any, **more: Any) -> list[str]:
    return [each.message for each in _found(*args, **more)]


# --- drain ------------------------------------------------------------------------------------------------------------------------------


def _noted(thing: Object, **notes: str) -> Object:
    thing["metadata"]["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"} | notes
    return thing


@pytest.mark.parametrize(
    ("stays", "why"),
    [
        ([pod("p", node_name="n0")], "it has no controller that would replace it (--also-move bare)"),
        ([pod("p", node_name="n0", owner="Widget/w")], "its controller would not replace it elsewhere"),
        ([_noted(running("p", "n0"))], "an annotation forbids to disrupt it"),
        ([running("p", "n0", volumes=[{"name": "v", "emptyDir": {}}])], "it keeps data on the node (--also-move local-storage)"),
        (
            [running("p", "n0", labels={"app": "web"}), budget("guard", "web", minAvailable=1)],
            "PodDisruptionBudget default/guard allows no disruption",
        ),
        (
            [running("p", "n0", labels={"app": "web"}), budget("one", "web", minAvailable=0), budget("two", "web", minAvailable=0)],
            "2 PodDisruptionBudgets select it (default/one, default/two), and the Eviction API refuses such pods",
        ),
    ],
)
def test_who_may_not_move_stays_on_a_drained_node(stays: list[Object], why: str) -> None:
    found = _found([node("n0"), node("n1"), *stays], drain=("n0",))
    assert found == [Obstacle("drain", f"default/p stays on n0: {why}", "default/p", "n0", proved=True)]


def test_members_of_a_running_gang_stay() -> None:
    pair = gang("pair", running("p", "n0"), running("q", "n1"))
    assert _told([node("n0"), node("n1"), *pair], drain=("n0",)) == ["default/p stays on n0: it is a member of a running gang"]


def test_nothing_is_said_of_what_goes_with_the_node_or_has_gone() -> None:
    leaving = pod("leaving", node_name="n0")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    objects = [node("n0"), node("n1"), pod("agent", node_name="n0", owner="DaemonSet/a"), leaving, running("p", "n0")]
    assert _found(objects, drain=("n0",), steps=(("p", 0, 1),)) == []
    assert [each.pod for each in _found(objects, drain=("n0",))] == ["default/p"]


def test_who_finds_no_other_node() -> None:
    objects = [node("n0"), running("p", "n0", cpu="2")]
    assert _told(objects, drain=("n0",)) == ["default/p stays on n0: there is no other node"]
    full = "default/p stays on n0: no other node takes it: NodeResourcesFit on 1 of 1 (insufficient cpu on 1)"
    assert _told([*objects, node("n1", cpu="1")], drain=("n0",)) == [full]


def test_who_would_find_one_was_kept_by_the_limits() -> None:
    objects = [node("n0"), node("n1"), running("p", "n0")]
    reported = _told(objects, drain=("n0",), limits=Limits(maxMoves=0))
    assert len(reported) == 1
    assert reported[0].startswith("default/p stays on n0: the limits of the plan do not allow its move")


def test_who_would_find_one_was_kept_by_the_number_of_waves() -> None:
    objects = [node("n0"), node("n1"), running("p", "n0", labels={"app": "web"}), running("q", "n0", labels={"app": "web"}, cpu="1")]
    objects.append(budget("guard", "web", minAvailable=1))
    reported = _told(objects, drain=("n0",), limits=Limits(maxWaves=1), steps=(("p", 0, 1),))
    assert reported == ["default/q stays on n0: PodDisruptionBudget default/guard allows 1 eviction in 1 wave, already used by other pods"]
    reported = _told(objects, drain=("n0",), limits=Limits(maxWaves=2), steps=(("p", 0, 1),))
    assert reported[0].startswith("default/q stays on n0: the limits of the plan (at most 2 waves) do not allow its move")
    waiting = _told([node("n0"), pod("new")], "admit", limits=Limits(maxWaves=0))
    assert waiting[0].startswith("default/new stays pending: the limits of the plan (at most 0 waves) do not allow its binding")


def test_who_is_needed_where_it_is() -> None:
    zones = [node("n0", labels={"zone": "z"}), node("n1", labels={"zone": "y"})]
    pods = [running("p", "n0", labels={"app": "p"}), pod("q", node_name="n0", affinity=near("p", "zone"), owner="DaemonSet/d")]
    why = "no other node takes it: without it, a rule of a running pod would be broken or broken further"
    assert _told([*zones, *pods], drain=("n0",)) == [f"default/p stays on n0: {why}"]


def test_the_pods_that_are_left_are_those_that_did_not_go() -> None:
    objects = [node("n0"), node("n1", pods="1"), *(running(f"p{i}", "n0") for i in range(3))]
    found = _found(objects, drain=("n0",), steps=(("p0", 0, 1),))
    assert [each.pod for each in found] == ["default/p1", "default/p2"]


@pytest.mark.parametrize("proved", [True, False])
def test_what_is_known_to_be_impossible_says_so(proved: bool) -> None:
    objects = [node("n0"), node("n1", cpu="1"), running("p", "n0", cpu="2")]
    for goal, drain in ((), ("n0",)), (("repair",), ()):
        objects[2]["spec"]["nodeSelector"] = {"disk": "ssd"} if goal else {}
        assert [each.proved for each in _found(objects, *goal, drain=drain, proved=proved)] == [proved]


# --- repair -----------------------------------------------------------------------------------------------------------------------------


def test_rules_that_are_still_broken() -> None:
    objects = [node("n0"), running("p", "n0", selector={"disk": "ssd"}), pod("b", node_name="n0", labels={"app": "b"}, affinity=near("x"))]
    assert _told(objects, "repair") == [
        "default/p on n0 still breaks NodeAffinity: there is no other node",
        "default/b on n0 still breaks InterPodAffinity: it is not moved",
    ]
    assert _told([*objects, node("n1", labels={"disk": "ssd"})], "repair", steps=(("p", 0, 1),)) == [
        "default/b on n0 still breaks InterPodAffinity: it is not moved"
    ]


def test_every_pod_and_every_rule_is_told() -> None:
    objects = [node("n0", cpu="150m"), node("n1"), *(running(f"p{i}", "n0", labels={"app": "p"}, affinity=apart("p")) for i in range(2))]
    found = _found(objects, "repair", limits=Limits(maxMoves=0))
    assert sorted((each.pod, each.message.split("breaks ")[1].split(":")[0]) for each in found) == [
        (f"default/p{i}", rule) for i in range(2) for rule in ("InterPodAffinity", "NodeResourcesFit")
    ]
    assert {each.node for each in found} == {"n0"}


# --- admit ------------------------------------------------------------------------------------------------------------------------------


def test_who_fits_nowhere_stays_pending() -> None:
    found = _found([node("n0", cpu="1"), pod("p", cpu="2")], "admit")
    why = "no node takes it: NodeResourcesFit on 1 of 1 (insufficient cpu on 1)"
    assert found == [Obstacle("admit", f"default/p stays pending: {why}", "default/p", proved=True)]


def test_who_could_be_bound_was_not() -> None:
    reported = _told([node("n0"), pod("p")], "admit")
    assert len(reported) == 1
    assert reported[0].startswith("default/p stays pending: its binding would be accepted")
    assert _told([node("n0"), pod("p")], "admit", steps=(("p", -1, 0),)) == []


def test_pods_of_a_class_that_were_bound_are_not_told() -> None:
    objects = [node("n0", cpu="1"), *(pod(f"p{i}", cpu="800m") for i in range(3))]
    assert [each.pod for each in _found(objects, "admit", steps=(("p0", -1, 0),))] == ["default/p1", "default/p2"]


def test_a_gang_without_room() -> None:
    members = gang("train", pod("a", cpu="1"), pod("b", cpu="1"))
    reported = _told([node("n0", cpu="1"), *members], "admit")
    assert reported == [f"default/{name} stays pending: no room for 2 pods of gang default/train at once" for name in "ab"]


def test_a_gang_that_has_what_it_needs() -> None:
    members = gang("train", *(pod(f"g{i}", cpu="1") for i in range(3)))
    for member in members:
        member["metadata"]["annotations"]["kubestow.dev/min-member"] = "2"
    reported = _told([node("n0", cpu="2"), *members], "admit", steps=(("g0", -1, 0), ("g0", -1, 0)))
    assert len(reported) == 1
    assert reported[0].startswith("default/g2 stays pending: its gang has all that it needs, and no node takes more: NodeResourcesFit")


# --- many -------------------------------------------------------------------------------------------------------------------------------


def test_many_of_one_kind_are_summed_up() -> None:
    objects = [node("n0", cpu="1"), *(pod(f"p{i}", cpu="2") for i in range(MAX_LISTED_OBSTACLES + 7))]
    found = _found(objects, "admit")
    assert len(found) == MAX_LISTED_OBSTACLES
    assert found[-1] == Obstacle("admit", "8 more like these", proved=True)
    assert len(_found(objects[: MAX_LISTED_OBSTACLES + 1], "admit")) == MAX_LISTED_OBSTACLES
    assert all(each.pod for each in _found(objects[: MAX_LISTED_OBSTACLES + 1], "admit"))


def test_moves_that_wait_for_each_other_are_named_where_the_goal_is_not_reached() -> None:
    objects = [node("n0", labels={"disk": "hdd"}), node("n1", labels={"disk": "ssd"})]
    objects += [running("p", "n0", selector={"disk": "ssd"}), running("q", "n1", selector={"disk": "hdd"})]
    circle = (("p", 0, 1), ("q", 1, 0))
    reported, told_circle = _told(objects, "repair", stuck=circle), "default/p from n0 to n1, default/q from n1 to n0"
    assert reported[-1] == f"moves that wait for each other in a cycle, with no spare node to break it: {told_circle}"
    assert len(reported) == 3
    assert _told(objects, "repair", steps=circle, stuck=circle) == []
