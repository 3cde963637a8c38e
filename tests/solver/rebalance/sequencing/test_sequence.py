"""The order of plans: dead ends, stopovers, and agreement with a breadth-first search over accepted steps."""

from __future__ import annotations

import random
import threading
from collections import deque
from typing import Any

import numpy as np
import pytest

from kubestow.models.cluster.cluster import Ints
from kubestow.models.documents.rebalance_plan import Limits
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step, read_problem
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.sequencing import astar, confinement
from kubestow.solver.rebalance.sequencing.deadlocks import waiting_in_cycle
from kubestow.solver.rebalance.sequencing.sequence import OrderResult, count_pods, order
from kubestow.solver.rebalance.waves.wave_limit import fits
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from tests import objects
from tests.plans import tiny
from tests.tiers import sampled

Object = dict[str, Any]
ZONE = "zone"


def node(name: str, cpu: str = "1", zone: str = "z", pods: str = "10") -> Object:
    return objects.node(name, cpu=cpu, pods=pods, labels={ZONE: zone})


def pod(name: str, at: str | None, *, app: str = "", **more: Any) -> Object:
    return objects.pod(name, node_name=at, owner="ReplicaSet/r", labels={"app": app or name}, **{"cpu": "1", "memory": "0", **more})


def case_of(things: list[Object], **asked: Any) -> RebalanceProblem:
    return read_problem(from_objects(things), PlanOptions(**asked))


def target_of(problem: RebalanceProblem, moves: dict[str, str | None]) -> Ints:
    """The start with some pods elsewhere (None: gone), by name."""
    target = problem.start.copy()
    for g, cls in enumerate(problem.cluster.classes):
        for i in cls.pods:
            found = problem.cluster.snapshot.pods[i]
            if found.metadata.name in moves:
                to = moves[found.metadata.name]
                if found.spec.nodeName:
                    target[g, problem.cluster.nodes.names.index(found.spec.nodeName)] -= 1
                if to is not None:
                    target[g, problem.cluster.nodes.names.index(to)] += 1
    return target


def run(problem: RebalanceProblem, target: Ints, *, steps_at_most: int | None = None) -> OrderResult:
    found = order(problem, target, RunContext.start(Options(deterministic=True)), seconds=20, steps_at_most=steps_at_most)
    if found.steps is not None:
        replay(problem, target, found.steps)
    return found


def replay(problem: RebalanceProblem, target: Ints, steps: list[Step]) -> None:
    """Each step is accepted, the last leads to the target, and units bind into a valid state."""
    state = PlanState(problem)
    i = 0
    while i < len(steps):
        g, a, b, k = steps[i].g, steps[i].a, steps[i].b, steps[i].k
        gang = problem.cluster.classes[g].gang if problem.pending[g] else None
        if gang is not None:
            unit = [s for s in steps[i:] if problem.pending[s.g] and problem.cluster.classes[s.g].gang == gang]
            assert steps[i : i + len(unit)] == unit
            for step in unit:
                state.apply(step)
            assert all(residents.gone(s.g) for residents in state.residents.values() for s in unit)
            i += len(unit)
            continue
        for _ in range(k):
            assert state.counts[g, a] > 0 if a >= 0 else problem.pending[g]
            assert state.landing(g, a)[b] if b >= 0 else problem.evictable[g] and state.may_go(g, a)
            state.apply(Step(g, a, b))
        i += 1
    assert np.array_equal(state.counts, target)


def named(problem: RebalanceProblem, steps: list[Step]) -> list[tuple[str, str, str]]:
    names = [*problem.cluster.nodes.names, "-"]
    return [(problem.cluster.classes[s.g].pod.metadata.name or "", names[s.a], names[s.b]) for s in steps]


# --- by hand --------------------------------------------------------------------------------------------------------------------


def test_swap_goes_through_the_spare_place() -> None:
    problem = case_of([node("a"), node("b"), node("c"), pod("p", "a"), pod("q", "b", cpu="900m")])
    found = run(problem, target_of(problem, {"p": "b", "q": "a"}))
    assert found.steps is not None
    assert found.fewest
    assert count_pods(found.steps) == 3
    assert sum(b == "c" for _, _, b in named(problem, found.steps)) == 1


def test_swap_without_a_spare_place_is_a_circle() -> None:
    problem = case_of([node("a"), node("b"), pod("p", "a"), pod("q", "b", cpu="900m")])
    found = run(problem, target_of(problem, {"p": "b", "q": "a"}))
    assert found.steps is None
    assert found.exhausted
    assert not found.fewest
    assert sorted(named(problem, found.stuck)) == [("p", "a", "b"), ("q", "b", "a")]


def test_drained_nodes_are_no_spare_place() -> None:
    things = [node("a"), node("b"), node("c"), pod("p", "a"), pod("q", "b", cpu="900m")]
    problem = case_of(things, drain=("c",))
    found = run(problem, target_of(problem, {"p": "b", "q": "a"}))
    assert found.steps is None
    assert found.exhausted


def test_steps_at_most_leaves_no_stopover() -> None:
    problem = case_of([node("a"), node("b"), node("c"), pod("p", "a"), pod("q", "b", cpu="900m")])
    target = target_of(problem, {"p": "b", "q": "a"})
    found = run(problem, target, steps_at_most=2)
    assert found.steps is None
    assert found.exhausted
    assert run(problem, target, steps_at_most=1).exhausted
    assert run(problem, target, steps_at_most=3).steps is not None


@pytest.mark.parametrize(
    ("limits", "possible"),
    [
        (Limits(maxMoves=2), False),
        (Limits(maxMoves=3), True),
        (Limits(maxMovesPerNamespace=2), False),
        (Limits(maxMovesPerNamespace=3), True),
    ],
)
def test_limits_of_the_plan_hold_for_stopovers(limits: Limits, possible: bool) -> None:
    problem = case_of([node("a"), node("b"), node("c"), pod("p", "a"), pod("q", "b", cpu="900m")], limits=limits)
    found = run(problem, target_of(problem, {"p": "b", "q": "a"}))
    assert (found.steps is not None) == possible
    assert found.exhausted != possible


@pytest.mark.parametrize(("waves", "possible"), [(1, False), (2, False), (3, True)])
def test_stopovers_count_under_the_budget_for_as_many_waves_as_there_may_be(waves: int, possible: bool) -> None:
    guard = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "guard", "namespace": "default"},
        "spec": {"selector": {}, "minAvailable": 1},
    }  # fmt: skip
    things = [node("a"), node("b"), node("c"), pod("p", "a"), pod("q", "b", cpu="900m"), guard]
    problem = case_of(things, limits=Limits(maxWaves=waves))
    found = run(problem, target_of(problem, {"p": "b", "q": "a"}))
    assert (found.steps is not None) == possible
    assert found.exhausted != possible


def test_of_several_orders_one_of_few_waves_is_preferred() -> None:
    """Each pod goes to the node that the next one leaves: at once where nodes hold two, else in as many waves as there are pods."""
    things = [node(f"n{i}", "2") for i in range(4)] + [pod(f"p{i}", f"n{i}", cpu=f"{900 + i}m") for i in range(3)]
    problem = case_of(things, limits=Limits(maxWaves=1))
    found = run(problem, target_of(problem, {f"p{i}": f"n{i + 1}" for i in range(3)}))
    assert found.steps is not None
    assert fits(problem, found.steps)
    chain = case_of([node(f"n{i}") for i in range(4)] + things[4:], limits=Limits(maxWaves=2))
    late = run(chain, target_of(chain, {f"p{i}": f"n{i + 1}" for i in range(3)}))
    assert late.steps is not None  # it takes three waves, and that is for the caller to know
    assert not fits(chain, late.steps)
    assert not late.exhausted


def test_a_limit_per_workload_decides_who_makes_the_stopover() -> None:
    things = [node("a"), node("b"), node("c"), pod("p", "a"), pod("q", "b", cpu="900m")]
    things[4]["metadata"]["ownerReferences"][0] |= {"name": "other", "uid": "other"}
    things.append(pod("r", "c", cpu="50m"))  # belongs with p, so that the workload of p has spent its moves
    problem = case_of([*things, node("d", "100m")], limits=Limits(maxMovesPerWorkload=2))
    found = run(problem, target_of(problem, {"p": "b", "q": "a", "r": "d"}))
    assert found.steps is not None
    assert [b for p, _, b in named(problem, found.steps) if p == "p"] == ["b"]


def test_a_pod_that_need_not_move_makes_room_and_comes_back() -> None:
    # p and q swap; the only place for either is held by r, which fits on d
    things = [node("a"), node("b"), node("c"), node("d", "500m"), pod("p", "a"), pod("q", "b", cpu="900m"), pod("r", "c", cpu="400m")]
    problem = case_of(things)
    found = run(problem, target_of(problem, {"p": "b", "q": "a"}))
    assert found.steps is not None
    assert found.fewest
    assert count_pods(found.steps) == 5
    assert [a for p, a, _ in named(problem, found.steps) if p == "r"] == ["c", "d"]


def test_a_chain_is_taken_from_its_end() -> None:
    things = [node(f"n{i}") for i in range(6)] + [pod(f"p{i}", f"n{i}", cpu=f"{900 + i}m") for i in range(5)]
    problem = case_of(things)
    found = run(problem, target_of(problem, {f"p{i}": f"n{i + 1}" for i in range(5)}))
    assert found.steps is not None
    assert found.fewest
    assert [p for p, _, _ in named(problem, found.steps)] == ["p4", "p3", "p2", "p1", "p0"]


def test_spread_forces_an_order() -> None:
    spread = [
        {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "s"}}},
    ]
    things = [node("a", "3", "x"), node("b", "3", "y"), pod("s1", "a", app="s", spread=spread)]
    things += [pod(f"s{i}", "b", app="s", cpu=f"{i}00m", spread=spread) for i in (2, 3)]
    problem = case_of(things)
    found = run(problem, target_of(problem, {"s1": "b", "s2": "a"}))  # s1 first would leave a without and b with three
    assert found.steps is not None
    assert found.fewest
    assert named(problem, found.steps) == [("s2", "b", "a"), ("s1", "a", "b")]
    even = case_of(things[:4])  # one in each zone: the first move makes it none and two
    assert run(even, target_of(even, {"s1": "b", "s2": "a"})).exhausted


def test_affinity_forces_the_provider_last() -> None:
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "db"}}},
    ]}}  # fmt: skip
    things = [node("a", "3", "x"), node("b", "3", "y"), pod("db1", "a", app="db"), pod("db2", "a", app="db")]
    problem = case_of([*things, pod("web", "a", affinity=near)])
    found = run(problem, target_of(problem, {"db1": "b", "db2": "b", "web": "b"}))
    assert found.steps is not None
    assert found.fewest
    assert [p for p, _, _ in named(problem, found.steps)] == ["db1", "web", "db1"]  # db1 and db2 are of one class
    alone = case_of([*things[:3], pod("web", "a", affinity=near)])
    assert run(alone, target_of(alone, {"db1": "b", "web": "b"})).exhausted  # the provider cannot go with its guest


def test_evictions_make_room_for_bindings() -> None:
    things = [node("a"), pod("low", "a", priority=0), pod("high", None, priority=10)]
    problem = case_of(things, goals=("admit",), limits=Limits(allowEviction=True))
    found = run(problem, target_of(problem, {"low": None, "high": "a"}))
    assert found.steps is not None
    assert named(problem, found.steps) == [("low", "a", "-"), ("high", "-", "a")]
    assert found.fewest


def test_gangs_that_need_each_other_bind_as_a_unit() -> None:
    def near(app: str) -> Object:
        term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}
        return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    things = [node("a", "2"), node("b", "1"), pod("x", None, affinity=near("y")), pod("y", None, affinity=near("x")), pod("old", "a")]
    for thing in things[2:4]:
        thing["metadata"]["annotations"] = {"kubestow.dev/gang": "default/g"}
    problem = case_of(things, goals=("admit",))
    found = run(problem, target_of(problem, {"x": "a", "y": "a", "old": "b"}))
    assert found.steps is not None
    assert found.fewest
    assert named(problem, found.steps)[0] == ("old", "a", "b")
    assert sorted(p for p, _, _ in named(problem, found.steps)[1:]) == ["x", "y"]


@pytest.mark.full
@pytest.mark.parametrize(("alike", "steps"), [(False, 90), (True, 61)])
def test_many_circles_and_one_spare_place(*, alike: bool, steps: int) -> None:
    things: list[Object] = [node("spare")]
    moves: dict[str, str | None] = {}
    for i in range(30):
        size = 500 if alike else 500 + 2 * i
        things += [node(f"a{i}"), node(f"b{i}"), pod(f"p{i}", f"a{i}", cpu=f"{size + 300}m"), pod(f"q{i}", f"b{i}", cpu=f"{size + 1}m")]
        moves |= {f"p{i}": f"b{i}", f"q{i}": f"a{i}"}
    problem = case_of(things)
    found = run(problem, target_of(problem, moves))
    assert found.steps is not None
    assert count_pods(found.steps) == steps  # pods that are alike pass the spare place on


def test_two_runs_give_the_same_steps() -> None:
    """A case too large for the exhaustive search, with deadlocks: passes in other orders decide."""
    rng = random.Random(3)
    things: list[Object] = [node(f"n{i}", "8") for i in range(20)]
    sizes = [rng.choice((500, 900, 1100, 1500, 2100)) for _ in range(90)]
    ways: list[dict[str, str | None]] = []
    for _ in range(2):
        free = [8000] * 20
        ways.append({})
        for i in sorted(range(90), key=lambda i: -sizes[i]):
            n = max(rng.sample(range(20), 6), key=lambda n: free[n])
            n = n if free[n] >= sizes[i] else max(range(20), key=lambda n: free[n])
            free[n] -= sizes[i]
            ways[-1][f"p{i}"] = f"n{n}"
        assert min(free) >= 0
    things += [pod(f"p{i}", ways[0][f"p{i}"], app="p", cpu=f"{size}m") for i, size in enumerate(sizes)]
    problem = case_of(things)
    target = target_of(problem, {name: to for name, to in ways[1].items() if to != ways[0][name]})
    first, second = run(problem, target), run(problem, target)
    assert first.steps is not None
    assert first == second


def test_what_is_stuck_beside_a_circle_is_not_named() -> None:
    moves = [Step(0, 0, 1), Step(1, 1, 2), Step(2, 2, 1), Step(3, 5, 0)]
    assert waiting_in_cycle(moves) == [Step(1, 1, 2), Step(2, 2, 1)]
    assert waiting_in_cycle(moves[:2]) == moves[:2]


def test_a_stopped_search_proves_nothing() -> None:
    problem = case_of([node("a"), node("b"), pod("p", "a"), pod("q", "b", cpu="900m")])
    stop = threading.Event()
    stop.set()
    found = order(problem, target_of(problem, {"p": "b", "q": "a"}), RunContext.start(Options(), stop), seconds=10)
    assert found.steps is None
    assert not found.exhausted


def test_a_search_cut_short_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(astar, "MAX_STATES", 1)
    monkeypatch.setattr(confinement, "MAX_STATES", 0)
    problem = case_of([node("a"), node("b"), pod("p", "a"), pod("q", "b", cpu="900m"), pod("r", "a", cpu="0"), pod("s", "b", cpu="0")])
    found = run(problem, target_of(problem, {"p": "b", "q": "a", "r": "b"}))
    assert found.steps is None
    assert not found.exhausted


# --- against a breadth-first search ------------------------------------------------------------------------------------------------


def shortest(problem: RebalanceProblem, target: Ints, limit: int = 4000) -> list[Step] | None:
    """A shortest sequence of accepted steps, by breadth-first search over everything that can be moved, bound or evicted.

    Raises:
        MemoryError: more states than the limit.
    """
    state = PlanState(problem)
    classes = np.flatnonzero(problem.movable | problem.pending).tolist()
    queue: deque[list[Step]] = deque([[]])
    seen = set()
    going = problem.start.sum(axis=1) - target.sum(axis=1)
    while queue:
        way = queue.popleft()
        for step in way:
            state.apply(step)
        paths = tuple(p for rule in state.rules if (p := rule.path()) is not None)
        key = (state.counts.tobytes(), state.arrived.tobytes(), paths)
        if key not in seen:
            seen.add(key)
            if np.array_equal(state.counts, target):
                return way
            if len(seen) > limit:
                raise MemoryError
            for g in classes:
                if problem.pending[g]:
                    nodes = np.flatnonzero(state.landing(g, -1) & (state.counts[g] < target[g]))
                    queue.extend([*way, Step(g, -1, b)] for b in nodes.tolist())
                    continue
                gone = int(problem.start[g].sum() - state.counts[g].sum())
                for a in np.flatnonzero(state.counts[g]).tolist():
                    queue.extend([*way, Step(g, a, b)] for b in np.flatnonzero(state.landing(g, a)).tolist())
                    if gone < going[g] and problem.evictable[g] and state.may_go(g, a):
                        queue.append([*way, Step(g, a, -1)])
        for step in reversed(way):
            state.undo(step)
    return None


def somewhere(problem: RebalanceProblem, rng: random.Random) -> Ints:
    """A target: pods of the start exchanged or moved, some gone, some bound; whether it can be reached is open."""
    target = problem.start.copy()
    movers = np.flatnonzero(problem.movable & (problem.start.sum(axis=1) > 0)).tolist()
    for _ in range(rng.choice((1, 2, 2, 3))):
        if not movers:
            break
        g, h = rng.choice(movers), rng.choice(movers)
        a, b = rng.choice(np.flatnonzero(target[g]).tolist() or [0]), rng.choice(np.flatnonzero(target[h]).tolist() or [0])
        if rng.random() < 0.6 and target[g, a] and target[h, b] and g != h:
            target[g, a] -= 1
            target[g, b] += 1
            target[h, b] -= 1
            target[h, a] += 1
        elif target[g, a]:
            target[g, a] -= 1
            if problem.evictable[g] and rng.random() < 0.4:
                continue
            target[g, rng.randrange(problem.cluster.n_nodes)] += 1
    for g in np.flatnonzero(problem.pending).tolist():
        if problem.cluster.classes[g].gang is None and rng.random() < 0.7:
            target[g, rng.randrange(problem.cluster.n_nodes)] += 1
    return target


def _agree(seed: int, kind: str) -> str:
    rng = random.Random(f"{seed}-{kind}")
    goals, drain, limits = tiny.plan_options(seed, kind)
    problem = case_of(tiny.cluster(seed, kind), goals=goals, drain=drain, limits=Limits(allowEviction=limits.allowEviction))
    target = somewhere(problem, rng)
    found = run(problem, target)
    try:
        best = shortest(problem, target)
    except MemoryError:
        return "large"
    if best is None:
        assert found.steps is None
        assert found.exhausted
        return "none"
    assert found.steps is not None
    assert found.fewest
    assert count_pods(found.steps) == len(best)
    capped = run(problem, target, steps_at_most=len(best) - 1)
    assert capped.steps is None
    assert capped.exhausted
    return "direct" if len(best) == problem.moves(target) else "detour"


@pytest.mark.parametrize("kind", sampled(tiny.KINDS, every=4))
def test_fewest_and_exhausted_agree_with_breadth_first_search(kind: str) -> None:
    seen = [_agree(seed, kind) for seed in range(25)]
    assert {"none", "direct"} <= set(seen)
