"""Who is worse off when others move: required affinity whose provider leaves, and spreads whose minimum sinks or that pods join."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from kubestow.solver.rebalance.problem.problem import Step
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rules.inter_pod_affinity.residents import Providers
from kubestow.solver.rules.pod_topology_spread.residents import Skews
from tests.objects import node, pod
from tests.solver.rebalance.problem.test_problem import apart, case_of, class_of, even, near, running

Object = dict[str, Any]
ZONE = "zone"


def _zones(*zones: str) -> list[Object]:
    return [node(f"n{i}", labels={ZONE: zone} if zone else {}) for i, zone in enumerate(zones)]


def _web(name: str, at: str, **more: Any) -> Object:
    return running(name, at, labels={"app": "web"}, **more)


def _db(name: str, at: str, **more: Any) -> Object:
    return running(name, at, labels={"app": "db"}, cpu="200m", **more)


def _state(*objects: Object) -> PlanState:
    return PlanState(case_of(objects, ["repair"]))


def _landing(state: PlanState, name: str, a: int) -> list[int]:
    return np.flatnonzero(state.landing(class_of(state.problem, name), a)).tolist()


def _gone(state: PlanState, name: str, a: int) -> bool:
    return state.may_go(class_of(state.problem, name), a)


def _providers(state: PlanState) -> Providers:
    return cast(Providers, state.residents["InterPodAffinity"])


def _skews(state: PlanState) -> Skews:
    return cast(Skews, state.residents["PodTopologySpread"])


# --- required affinity ------------------------------------------------------------------------------------------------------------------


def test_who_alone_is_wanted_stays_in_the_domain() -> None:
    state = _state(*_zones("z", "z", "y"), _web("web", "n0", affinity=near("db", ZONE)), _db("db", "n0"))
    assert (_landing(state, "db", 0), _gone(state, "db", 0)) == ([1], False)


def test_who_is_wanted_with_others_may_leave() -> None:
    state = _state(*_zones("z", "z", "y"), _web("web", "n0", affinity=near("db", ZONE)), _db("db", "n0"), _db("db2", "n1"))
    assert (_landing(state, "db", 0), _gone(state, "db", 0)) == ([1, 2], True)
    state.apply(Step(class_of(state.problem, "db"), 0, 2))
    assert (_landing(state, "db2", 1), _gone(state, "db2", 1)) == ([0], False)


def test_who_breaks_anti_affinity_does_not_hold_whom_it_needs() -> None:
    """InterPodAffinity is one filter: a pod that breaks one of its terms may break all."""
    both = {**near("db", ZONE), **apart("foe", ZONE)}
    things = [*_zones("z", "y"), _web("web", "n0", affinity=both), _db("db", "n0"), running("foe", "n0", labels={"app": "foe"})]
    state = _state(*things)
    assert state.broken() == {"InterPodAffinity": 2}
    assert (_landing(state, "db", 0), _gone(state, "db", 0)) == ([1], True)
    things[-1] = running("foe", "n1", labels={"app": "foe"})
    assert (_landing(_state(*things), "db", 0), _gone(_state(*things), "db", 0)) == ([], False)


def test_who_moved_holds_whom_it_needs_again() -> None:
    both = {**near("db", ZONE), **apart("foe", ZONE)}
    state = _state(
        *_zones("z", "y"), _web("web", "n0", affinity=both), _db("db", "n0"), _db("db2", "n1"), running("foe", "n0", labels={"app": "foe"})
    )
    state.apply(Step(class_of(state.problem, "web"), 0, 1))
    assert _landing(state, "db2", 1) == []


def test_who_missed_others_before_does_not_hold_them_now() -> None:
    state = _state(*_zones("z", "z", "y"), _web("web", "n0", affinity=near("db", ZONE)), _db("db", "n2"))
    assert state.broken() == {"InterPodAffinity": 1}
    assert (_landing(state, "db", 2), _gone(state, "db", 2)) == ([0, 1], True)


def test_who_was_moved_next_to_others_holds_them_though_it_missed_them_before() -> None:
    state = _state(*_zones("z", "z", "y"), _web("web", "n0", affinity=near("db", ZONE)), _db("db", "n2"))
    state.apply(Step(class_of(state.problem, "web"), 0, 2))
    assert (_landing(state, "db", 2), _gone(state, "db", 2)) == ([], False)
    state.undo(Step(class_of(state.problem, "web"), 0, 2))
    assert _landing(state, "db", 2) == [0, 1]


def test_who_was_moved_to_where_others_missed_somebody_holds_them_for_both() -> None:
    objects = [*_zones("z", "z", "y"), *(_web(f"web-{i}", n, affinity=near("db", ZONE)) for i, n in enumerate(("n0", "n2")))]
    state = _state(*objects, _db("db", "n2"), _db("db2", "n2"))
    db, web = class_of(state.problem, "db"), class_of(state.problem, "web-0")
    state.apply(Step(db, 2, 1))
    assert _landing(state, "db", 1) == [0, 2]  # web-0 may miss it again
    state.apply(Step(web, 2, 0))
    assert (_landing(state, "db", 1), _gone(state, "db", 1)) == ([0], False)


def test_pods_that_cannot_move_hold_others_too() -> None:
    state = _state(*_zones("z", "y"), pod("bare", node_name="n0", affinity=near("db", ZONE)), _db("db", "n0"))
    assert (_landing(state, "db", 0), _gone(state, "db", 0)) == ([], False)


def test_the_last_of_its_kind_stands_by_itself() -> None:
    state = _state(*_zones("z", "z", "y", ""), _web("p", "n0", affinity=near("web", ZONE)), _web("q", "n1", affinity=near("web", ZONE)))
    assert state.broken() == {}
    assert (_landing(state, "p", 0), _gone(state, "p", 0)) == ([1], True)  # together, or one of them alone
    state.apply(Step(class_of(state.problem, "p"), 0, -1))
    assert state.broken() == {}
    assert _landing(state, "p", 1) == [0, 2]


@pytest.mark.parametrize(("zones", "lacking"), [(("z", "z"), [False, False]), (("z", "y"), [True, True]), (("z", ""), [False, True])])
def test_who_misses_others(zones: tuple[str, str], lacking: list[bool]) -> None:
    """Without the key a pod is nowhere; then the other is alone with it, and needs nobody."""
    state = _state(*_zones(*zones), *(_web(f"p{i}", f"n{i}", affinity=near("web", ZONE)) for i in range(2)))
    assert _providers(state).lacking(0, np.array([0, 1])).tolist() == lacking


# --- spreads ----------------------------------------------------------------------------------------------------------------------------


def _spread(*homes: str, zones: str = "zzyy", skew: int = 1, stranger: str = "") -> PlanState:
    """web-0, web-1 … on their nodes with a constraint; a stranger that matches its selector without having it."""
    web = [_web(f"web-{i}", home, spread=even("web", ZONE, skew)) for i, home in enumerate(homes)]
    other = [_web("stranger", stranger, cpu="200m")] if stranger else []
    return _state(*_zones(*zones), *web, *other)


def test_the_emptiest_domain_is_not_made_emptier() -> None:
    state = _spread("n0", "n1", stranger="n2")  # 2/1
    assert (_landing(state, "stranger", 2), _gone(state, "stranger", 2)) == ([3], False)
    state = _spread("n0", stranger="n2")  # 1/1
    assert (_landing(state, "stranger", 2), _gone(state, "stranger", 2)) == ([3], True)  # to the first zone would be 2/0


def test_no_domain_is_made_fuller_than_pods_in_it_allow() -> None:
    state = _spread("n0", "n2", zones="zzyyx", stranger="n4")  # 1/1/1
    assert _landing(state, "stranger", 4) == []  # 2/1/0
    state = _spread("n0", zones="zzyyx", stranger="n2", skew=2)  # 1/1/0
    assert _landing(state, "stranger", 2) == [0, 1, 3, 4]  # 2/0/0 is fine


def test_domains_without_pods_of_the_constraint_may_be_as_full_as_they_like() -> None:
    state = _state(*_zones("z", "y"), *(_web(f"s{i}", "n1") for i in range(3)), _web("web", "n0", cpu="200m", spread=even("web", ZONE)))
    assert state.broken() == {}  # 1/3, but those in the second zone have no constraint
    assert (_landing(state, "s0", 1), _gone(state, "s0", 1)) == ([0], True)  # 2/2


def test_what_was_broken_may_stay_so_but_not_deepen() -> None:
    state = _spread("n0", "n0", "n1", zones="zzyyx", stranger="n2")  # 3/1/0: two above what may be
    assert state.broken() == {"PodTopologySpread": 3}
    assert _landing(state, "stranger", 2) == [3, 4]
    assert _gone(state, "stranger", 2)  # 3/0/0 is no deeper


def test_who_was_moved_may_break_nothing_where_others_did() -> None:
    state = _spread("n0", "n0", "n0", "n2", zones="zzyy", stranger="n3")  # 3/2
    assert state.broken() == {}
    state = _spread("n0", "n0", "n0", zones="zzyy", stranger="n3")  # 3/1: one above
    web = class_of(state.problem, "web-0")
    assert _landing(state, "web-0", 0) == [2, 3]
    state.apply(Step(web, 0, 2))  # 2/2
    assert _landing(state, "web-0", 0) == [1]  # 2/2 after; 1/3 would be too much for the one that was moved
    assert (_landing(state, "stranger", 3), _gone(state, "stranger", 3)) == ([0, 1, 2], True)


def test_who_was_moved_to_where_others_broke_the_constraint_breaks_it_no_more() -> None:
    """The first zone was one above what may be. It is so again once the stranger has left the last one."""
    web = [_web(f"web-{i}", home, spread=even("web", ZONE)) for i, home in enumerate(("n0", "n0", "n0", "n1"))]
    strangers = [_web(name, home, cpu="200m") for name, home in (("in-y", "n1"), ("in-x", "n2"))]
    state = _state(*_zones(*"zyx"), *web, *strangers)  # 3/2/1
    mine = class_of(state.problem, "web-0")
    for steps, fine in (((Step(mine, 0, -1), Step(mine, 1, -1)), True), ((Step(mine, 0, -1), Step(mine, 0, -1), Step(mine, 1, 0)), False)):
        for step in steps:
            state.apply(step)
        assert _gone(state, "in-x", 2) is fine  # 2/1/0
        for step in reversed(steps):
            state.undo(step)


def test_a_guard_forgets_what_is_taken_back() -> None:
    state = _spread("n0", "n1", "n2")
    kept = [(g.holders.tolist(), g.placed.tolist(), g.excess.tolist()) for g in _skews(state)._guards]
    assert kept == [([2, 1], [0, 0], [0, 0])]
    step = Step(0, 0, 2)
    state.apply(step)
    assert [(g.holders.tolist(), g.placed.tolist()) for g in _skews(state)._guards] == [([1, 2], [0, 1])]
    state.undo(step)
    assert [(g.holders.tolist(), g.placed.tolist(), g.excess.tolist()) for g in _skews(state)._guards] == kept


def test_over_takes_each_pod_out_of_the_minimum() -> None:
    state = _spread("n0", "n0", "n0", "n2")  # 3/1
    assert _skews(state).broken(0, np.array([0, 1, 2])).tolist() == [True, True, False]
    alone = _spread("n0", zones="z")
    assert _skews(alone).broken(0, np.array([0])).tolist() == [False]  # without itself the minimum is nought


def test_a_node_without_the_key_breaks_the_constraint() -> None:
    state = _state(*_zones("z", ""), *(_web(f"p{i}", f"n{i}", spread=even("web", ZONE)) for i in range(2)))
    assert _skews(state).broken(0, np.array([0, 1])).tolist() == [False, True]
    assert state.broken() == {"PodTopologySpread": 1}
