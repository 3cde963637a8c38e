"""Whom a plan may evict for good because of rules that hold during execution, as the checker sees it."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.documents.rebalance_plan import Limits
from tests.checker.plan.plans import apart, evict, faults, plan, running, together
from tests.objects import node

Object = dict[str, Any]
_WHY = "step 1 (wave 1): the pod is evicted for good, and no goal asks for that"


def _enforced(affinity: Object) -> Object:
    """The same terms, which hold during execution, too."""
    return {
        part: {"requiredDuringSchedulingRequiredDuringExecution": terms} for part, found in affinity.items() for terms in found.values()
    }


def _disk(value: str) -> Object:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": [value]}]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _goes(*things: Object, goals: tuple[str, ...] = ("repair",)) -> bool:
    """Return whether pod a-0 on n0 may be evicted permanently."""
    nodes = [node("n0", labels={"disk": "ssd"}), node("n1", labels={"disk": "ssd"})]
    document = plan([*nodes, *things], goals, (), evict(1, 1, "a-0", "n0"), limits=Limits(allowEviction=True))
    return _WHY not in [why for _, why in faults(*document)]


@pytest.mark.parametrize("broken", [True, False])
def test_only_broken_rules_let_their_pod_go(broken: bool) -> None:
    """Node affinity and affinity of the kind that holds during execution, broken or not; plain terms never do."""
    disk, near = _disk("hdd" if broken else "ssd"), together("b")
    mate = running("b-0", "n1" if broken else "n0")
    assert _goes(running("a-0", "n0", affinity=_enforced(disk))) is broken
    assert _goes(running("a-0", "n0", affinity=disk)) is False
    assert _goes(running("a-0", "n0", affinity=_enforced(near)), mate) is broken
    assert _goes(running("a-0", "n0", affinity=near), mate) is False
    assert _goes(running("a-0", "n0", affinity=_enforced(disk)), goals=("improve",)) is False


def test_another_rule_that_is_broken_lets_nobody_go() -> None:
    """A nodeSelector, or plain affinity together with a satisfied term that must hold during execution."""
    assert not _goes(running("a-0", "n0", selector={"disk": "hdd"}, affinity=_enforced(_disk("ssd"))))
    near = together("b")["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    kept = _enforced(together("c"))
    kept["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = near
    pod = running("a-0", "n0", affinity=kept)
    assert not _goes(pod, running("c-0", "n0"))
    assert _goes(pod, running("c-0", "n1"))
    assert not _goes(running("a-0", "n0", affinity=_enforced(apart("d")) | apart("e")), running("e-0", "n0"))


@pytest.mark.parametrize(
    ("mine", "other", "owner", "partner"),
    [(5, 5, True, False), (4, 5, True, True), (5, 4, False, False)],
)
def test_of_a_pair_the_owner_or_the_lower_priority(mine: int, other: int, owner: bool, partner: bool) -> None:
    """``mine``: priority of pod a-0. It may go as the owner of the rule, or as its partner."""
    assert _goes(running("a-0", "n0", priority=mine, affinity=_enforced(apart("b"))), running("b-0", "n0", priority=other)) is owner
    assert _goes(running("a-0", "n0", priority=mine), running("b-0", "n0", priority=other, affinity=_enforced(apart("a")))) is partner
    assert not _goes(running("a-0", "n0", priority=mine, affinity=apart("b")), running("b-0", "n0", priority=other))
    assert not _goes(running("a-0", "n0", priority=mine), running("b-0", "n0", priority=other, affinity=apart("a")))
    assert not _goes(running("a-0", "n0", priority=mine), running("b-0", "n1", priority=other, affinity=_enforced(apart("a"))))


def test_who_has_to_be_near_such_a_pod_and_nobody_else_may_go_too() -> None:
    nodes = [node("n0", labels={"disk": "ssd"})]
    near = [running(f"{x}-0", "n0", affinity=_enforced(together(y))) for x, y in (("d", "c"), ("c", "a"), ("a", "b"))]
    steps = [evict(k + 1, k + 1, f"{x}-0", "n0") for k, x in enumerate("dca")]
    limits = Limits(allowEviction=True)
    assert not [why for _, why in faults(*plan([*nodes, *near], ("repair",), (), *steps, limits=limits)) if "for good" in why]
    other = running("x-0", "n0", labels={"app": "a"})  # c has another one near it
    told = [why for _, why in faults(*plan([*nodes, *near, other], ("repair",), (), *steps, limits=limits)) if "for good" in why]
    assert len(told) == 2
