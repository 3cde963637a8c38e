"""The end of a run: as the document says, missed, or changed by others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from kubestow.checker.final_state import Ends, ends
from kubestow.models.documents.placement import Assignment, Placement, SnapshotRef
from kubestow.models.documents.rebalance_plan import Eviction, Limits, Move
from kubestow.models.snapshot.snapshot import from_objects
from tests.checker.plan.plans import plan, running, tier
from tests.objects import node, pod

Object = dict[str, Any]
STANDS = {"default/web-1": "default/web-9"}


def _cluster() -> dict[str, Object]:
    """By name. ``web-1`` moves from n1 to n2, ``low-1`` is evicted from n2 for good."""
    things = [node(name) for name in ("n1", "n2", "n3")]
    things += [running("web-1", "n1"), running("api-1", "n2"), running("low-1", "n2"), running("job-1", "n3")]
    for thing in things:
        thing["metadata"]["uid"] = f"uid-{thing['metadata']['name']}"
    return {thing["metadata"]["name"]: thing for thing in things}


def _carried_out() -> dict[str, Object]:
    world = _cluster()
    del world["web-1"], world["low-1"]
    world["web-9"] = running("web-9", "n2")
    world["low-9"] = running("low-9", None)
    return world


def _ends(now: dict[str, Object], stands: dict[str, str] | None = None) -> Ends:
    things = list(_cluster().values())
    moves = Move(1, 1, "default/web-1", "n1", "n2", ""), Eviction(1, 1, "default/low-1", "n2", "")
    before, document = plan(things, ["drain"], [tier("drained", 0)], *moves, drain=["n1"], limits=Limits(allowEviction=True))
    return ends(before, document, from_objects(list(copy.deepcopy(now).values())), STANDS if stands is None else stands)


def test_a_plan_that_was_carried_out_ends_as_it_says() -> None:
    assert _ends(_carried_out()) == Ends()


def test_a_controller_that_is_yet_to_replace_an_evicted_pod_is_no_miss() -> None:
    """A StatefulSet makes the next pod when the one before is Ready, which may wait as long as it likes."""
    world, owner = _carried_out(), {"kind": "StatefulSet", "name": "low", "uid": "low", "controller": True}
    things = list(_cluster().values())
    next(thing for thing in things if thing["metadata"]["name"] == "low-1")["metadata"]["ownerReferences"] = [owner]
    del world["low-9"]
    moves = Move(1, 1, "default/web-1", "n1", "n2", ""), Eviction(1, 1, "default/low-1", "n2", "")
    before, document = plan(things, ["drain"], [tier("drained", 0)], *moves, drain=["n1"], limits=Limits(allowEviction=True))
    assert document.after.pending == 1
    assert ends(before, document, from_objects(list(world.values())), STANDS) == Ends()


def _elsewhere(world: dict[str, Object]) -> None:
    world["web-9"]["spec"]["nodeName"] = "n3"


def _still_there(world: dict[str, Object]) -> None:
    del world["low-9"]
    world["low-1"] = _cluster()["low-1"]


def _deleted(world: dict[str, Object]) -> None:
    world["web-9"]["metadata"]["deletionTimestamp"] = "2026-11-01T10:00:00Z"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (_elsewhere, "Pod default/web-9, which replaces default/web-1, is on node n3, it should be on node n2"),
        (_still_there, "Pod default/low-1 is still on node n2, it should have been evicted"),
        (_deleted, "Pod default/web-9, which replaces default/web-1, is being deleted, it should stay on node n2"),
        (lambda world: world.pop("web-9"), "Pod default/web-9, which replaces default/web-1, is gone, it should be on node n2"),
    ],
)
def test_what_the_plan_says_and_is_not_so_is_missed(change: Callable[[dict[str, Object]], Any], line: str) -> None:
    world = _carried_out()
    change(world)
    found = _ends(world)
    assert line in found.missed
    assert not any("new" in line for line in found.foreign)


def test_a_plan_that_never_ran_is_missed_as_a_whole() -> None:
    found = _ends(_cluster(), {})
    assert found.missed == [
        "Pod default/web-1 is on node n1, it should be on node n2",
        "Pod default/low-1 is still on node n2, it should have been evicted",
        "empty nodes: 0, the plan says 1",
        "pods that wait: 0, the plan says 1",
        "pods of node n1: 1, the plan says 0",
        "requested cpu of node n1: 100m, the plan says 0",
        "requested memory of node n1: 128Mi, the plan says 0",
    ]
    assert not found.foreign


def test_what_others_changed_is_told_apart() -> None:
    world = _carried_out()
    world["late-1"] = running("late-1", "n1")
    world["job-1"]["status"]["phase"] = "Succeeded"
    found = _ends(world)
    assert found.missed == []
    assert found.foreign[:2] == ["Pod default/job-1, which was on node n3, has ended", "Pod default/late-1 is new on node n1"]
    assert "Node n1, which the plan empties, runs default/late-1, not of the plan" in found.foreign


def test_a_node_that_came_or_left_is_the_doing_of_others() -> None:
    world = _carried_out()
    del world["n3"], world["job-1"]
    world["n4"] = node("n4")
    found = _ends(world)
    assert not found.missed
    assert found.foreign == ["Node n3 is gone", "Node n4 is new", "Pod default/job-1, which was on node n3, has gone",
                             "empty nodes: 2, the plan says 1"]  # fmt: skip


def test_rules_that_pods_of_others_break_are_the_doing_of_others() -> None:
    world = _carried_out()
    world["api-1"]["spec"]["nodeSelector"] = {"disk": "ssd"}
    assert _ends(world) == Ends([], ["running pods that break NodeAffinity: 1, the plan says 0"])
    world["web-9"]["spec"]["nodeSelector"] = {"disk": "ssd"}
    assert _ends(world).missed == ["running pods that break NodeAffinity: 2, the plan says 0"]


def test_rules_that_a_changed_node_breaks_are_the_doing_of_others() -> None:
    world = _carried_out()
    world["n2"]["spec"] = {"taints": [{"key": "team", "effect": "NoSchedule"}]}
    found = _ends(world)
    assert found.missed == []
    assert found.foreign == [
        "Node n2 has other labels, taints or capacity than before", "running pods that break TaintToleration: 2, the plan says 0",
    ]  # fmt: skip


def test_every_assignment_of_a_placement_has_to_hold() -> None:
    things = [node("n1"), node("n2"), pod("a"), pod("b"), pod("c")]
    document = Placement(
        SnapshotRef("", 2, 3, 3), "exact", "optimal", [], [Assignment(f"default/{p}", "n1", i) for i, p in enumerate("abc", 1)]
    )
    before = from_objects(copy.deepcopy(things))
    placed = copy.deepcopy(things)
    for thing, there in zip(placed[2:], ("n1", "n1", "n1"), strict=True):
        thing["spec"]["nodeName"] = there
    assert ends(before, document, from_objects(copy.deepcopy(placed))) == Ends()
    placed[3]["spec"]["nodeName"] = "n2"
    placed[4]["spec"].pop("nodeName")
    placed[2]["spec"]["nodeSelector"] = {"disk": "ssd"}
    assert ends(before, document, from_objects(placed)).missed == [
        "Pod default/b is on node n2, it should be on node n1",
        "Pod default/c is without a node, it should be on node n1",
        "Pod default/a breaks NodeAffinity on node n1",
    ]
