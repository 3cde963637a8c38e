"""From a snapshot to a plan: progress, stops and limits, the same bytes twice, costs and prices, notes."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from kubestow.checker.plan.plan import verify_plan
from kubestow.checker.violation import InternalFault, Violation
from kubestow.models.documents.policy import Moves, Policy, PriorityCost
from kubestow.models.documents.rebalance_plan import Limits, RebalancePlan, to_builtins
from kubestow.models.snapshot.snapshot import InputError, from_objects
from kubestow.solver.rebalance import rebalance as rebalancing
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.rebalance import rebalance
from kubestow.solver.runtime.options import Options, Progress
from tests.objects import node, pod
from tests.plans import tiny
from tests.solver.rebalance.goals.test_improve import preferring
from tests.solver.rebalance.problem.test_problem import budget, gang, near, running
from tests.tiers import sampled

Object = dict[str, Any]


def plan_of(
    objects: Sequence[Object], *goals: str, drain: Sequence[str] = (), limits: Limits | None = None, **options: Any
) -> RebalancePlan:
    """A plan that the checker has nothing against, once more."""
    snapshot = from_objects(objects)
    plan_options = PlanOptions(goals, tuple(drain), limits or Limits(), Options(**{"time_limit": 20.0, "workers": 1, **options}))
    found = rebalance(snapshot, plan_options)
    assert verify_plan(snapshot, found) == []
    return found


def _moves(plan: RebalancePlan) -> list[tuple[str, str | None, str]]:
    return [(move.pod.removeprefix("default/"), move.source, move.to) for move in plan.moves]


def _tiers(plan: RebalancePlan) -> dict[str, tuple[int, int]]:
    return {tier.tier: (tier.value, tier.bound) for tier in plan.objective}


def _pair() -> list[Object]:
    """Two pods on two nodes; one node would do."""
    return [node("n0"), node("n1"), running("p", "n0", cpu="1", priority=9), running("q", "n1", cpu="1", priority=0)]


# --- the document -----------------------------------------------------------------------------------------------------------------------


def test_a_plan_says_what_it_was_asked_and_what_it_reaches() -> None:
    limits = Limits(maxMoves=5, alsoMove=["bare"])
    plan = plan_of(_pair(), "repair", "consolidate", drain=["n1"], limits=limits, engine="exact")
    assert (plan.goals, plan.drain, plan.limits) == (["drain", "repair", "consolidate"], ["n1"], limits)
    assert _moves(plan) == [("q", "n1", "n0")]
    assert _tiers(plan) == {"drained": (0, 0), "rules": (0, 0), "freed": (1, 1), "moves": (-1, -1)}
    assert (plan.status, plan.freed, plan.obstacles) == ("optimal", ["n1"], [])
    assert (plan.before.emptyNodes, plan.after.emptyNodes) == (0, 1)
    assert plan.snapshot.sha256 == from_objects(_pair()).sha256


def test_nothing_to_do_is_a_plan_without_moves() -> None:
    for goal in ("repair", "consolidate", "admit", "improve"):
        plan = plan_of([node("n0"), running("p", "n0")], goal)
        assert (plan.moves, plan.evictions, plan.waves) == ([], [], 0)
        assert goal != "repair" or plan.status == "optimal"


def test_pods_that_wait_are_noted_unless_the_plan_is_about_them() -> None:
    objects = [*_pair(), *(pod(f"new{i}", cpu="9") for i in range(4))]
    note = (
        "4 pods have no node (default/new0, default/new1, default/new2, …); the scheduler may bind them while the plan is carried out; "
        "--goal admit plans for them"
    )
    assert plan_of(objects, "repair").notes == [note]
    assert plan_of(objects, "admit").notes == []
    assert plan_of(_pair(), "repair").notes == []


def test_a_budget_that_asks_for_many_waves_is_named() -> None:
    pods = [running(f"web-{i}", "n0", cpu="10m", labels={"app": "web"}) for i in range(11)]
    objects = [node("n0"), node("n1"), *pods]
    (note,) = plan_of([*objects, budget("web", "web", minAvailable=10)], drain=["n0"], engine="greedy").notes
    why = "PodDisruptionBudget default/web allows 1 disruption at a time, and 11 of its pods move"
    assert note == f"the plan needs at least 11 waves: {why}"
    assert plan_of([*objects, budget("web", "web", minAvailable=9)], drain=["n0"], engine="greedy").notes == []


def test_members_that_bind_as_a_unit_share_step_and_wave() -> None:
    members = gang(
        "pair",
        pod("a", labels={"app": "a"}, affinity=near("b", "zone")),
        pod("b", labels={"app": "b"}, affinity=near("a", "zone")),
    )
    plan = plan_of([node("n0", labels={"zone": "z"}), *members], "admit")
    assert {(move.step, move.wave, move.gang) for move in plan.moves} == {(1, 1, "default/pair")}
    plan = plan_of([node("n0"), *gang("loose", pod("a"), pod("b", cpu="1"))], "admit")
    assert [move.step for move in plan.moves] == [1, 2]


def test_zones_of_running_pods_are_unknown() -> None:
    zone = {"name": "z", "type": "Node", "resources": [{"name": "cpu", "capacity": "4", "allocatable": "4", "available": "4"}]}
    topology = {
        "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": {"name": "n0"}, "zones": [zone],
        "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
    }  # fmt: skip
    plan = plan_of([*_pair(), topology], "repair")
    assert [(entry.pod, entry.field) for entry in plan.unmodelled] == [("Node/n0", "NodeResourceTopology")]


# --- progress, stops, faults ------------------------------------------------------------------------------------------------------------


def test_progress_is_told_phase_by_phase() -> None:
    progress: list[Progress] = []
    plan_options = PlanOptions(("consolidate",), (), Limits(), Options(time_limit=10.0, workers=1, engine="exact"))
    rebalance(from_objects(_pair()), plan_options, on_progress=progress.append)
    assert list(dict.fromkeys(entry.phase for entry in progress if entry.phase != "exact")) == [
        "compile",
        "greedy",
        "search",
        "waves",
        "verify",
    ]
    assert "2 movable pods in 2 classes, 2 nodes" in [entry.detail for entry in progress]
    assert all(a.seconds <= b.seconds for a, b in itertools.pairwise(progress))
    assert ("freed", 1, 1) in [(entry.tier, entry.value, entry.bound) for entry in progress if entry.phase == "search"]


@pytest.mark.parametrize("goal", ["repair", "improve", "consolidate", "admit"])
def test_a_stop_before_the_start_gives_a_valid_plan(goal: str) -> None:
    stop = threading.Event()
    stop.set()
    snapshot = from_objects(
        [*_pair(), pod("new", cpu="1"), running("r", "n0", selector={"disk": "ssd"}), node("n2", labels={"disk": "ssd"})]
    )
    plan = rebalance(snapshot, PlanOptions((goal,), (), Limits(), Options(time_limit=None)), stop=stop)
    assert verify_plan(snapshot, plan) == []
    assert plan.moves == []
    assert plan.status == "feasible"


def test_the_time_limit_counts_from_when_the_caller_began() -> None:
    snapshot = from_objects([node("n0", cpu="1"), node("n1"), running("p", "n1", cpu="2")])
    plan_options = PlanOptions(("consolidate",), (), Limits(), Options(time_limit=5.0, workers=1, engine="exact"))
    late = rebalance(snapshot, plan_options, began=time.monotonic() - 10)
    assert (late.engine, verify_plan(snapshot, late)) == ("greedy", [])


def test_a_time_limit_is_kept() -> None:
    """A dozen nodes for which the fewest moves take longer than that to prove."""
    objects: list[Object] = [node(f"n{i}", cpu="4") for i in range(12)]
    objects += [
        running(f"p{i}-{k}", f"n{i}", cpu=f"{cpu}m") for i in range(12) for k, cpu in enumerate((611 + 13 * i, 407 + 7 * i, 305 + 11 * i))
    ]
    before = time.monotonic()
    plan = plan_of(objects, "consolidate", time_limit=2.0)
    assert time.monotonic() - before < 6
    assert plan.freed


def test_a_plan_that_the_checker_refuses_is_an_internal_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalancing, "verify_plan", lambda snapshot, plan, **_: [Violation("default/p", "n1", "NodePorts", "is taken")])
    with pytest.raises(InternalFault, match="default/p on n1: NodePorts: is taken"):
        plan_of(_pair(), "consolidate")


def test_bad_input_is_named() -> None:
    dear = running("p", "n0")
    dear["metadata"]["annotations"] = {"kubestow.dev/move-cost": "0"}
    with pytest.raises(InputError, match="move-cost"):
        plan_of([node("n0"), dear], "repair")
    with pytest.raises(InputError, match="n9"):
        plan_of(_pair(), drain=["n9"])
    with pytest.raises(InputError, match="price"):
        plan_of([node("n0", labels={"price": "much"}), running("p", "n0")], "consolidate", policy=Policy(priceLabel="price"))


# --- the same twice ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize(
    ("goals", "drain", "kind", "engine"),
    [
        (("repair",), (), "repair", "auto"),
        (("consolidate",), (), "consolidate", "auto"),
        (("consolidate",), (), "consolidate", "lns"),
        (("admit",), (), "admit", "auto"),
        ((), ("n0",), "drain", "auto"),
        (("repair", "admit", "consolidate"), (), "mixed", "auto"),
    ],
)
def test_a_deterministic_run_gives_the_same_bytes_twice(goals: tuple[str, ...], drain: tuple[str, ...], kind: str, engine: str) -> None:
    limits, compared = Limits(allowEviction=True), 0
    for seed in range(30):
        objects = tiny.cluster(seed, kind)
        options = {"deterministic": True, "workers": 2, "time_limit": 0.3, "seed": 7}
        if compared < 2 and plan_of(objects, *goals, drain=drain, limits=limits, engine="greedy").moves:
            runs = [plan_of(objects, *goals, drain=drain, limits=limits, engine=engine, **options) for _ in range(2)]
            assert len({json.dumps(to_builtins(plan)) for plan in runs}) == 1
            assert runs[0].seconds is None
            compared += 1
    assert compared == 2


@pytest.mark.parametrize(("goals", "kind"), [(("repair",), "repair"), (("repair", "admit", "consolidate"), "mixed")])
def test_a_deterministic_run_does_not_ask_the_clock(goals: tuple[str, ...], kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine so busy that every look at the clock finds hours gone, a plan has the same bytes."""
    for seed in (1, 2):
        objects = tiny.cluster(seed, kind)
        runs = []
        for seconds in (0, 10_000):
            clock = itertools.count(0, seconds)
            monkeypatch.setattr(time, "monotonic", lambda clock=clock: float(next(clock)))
            runs.append(plan_of(objects, *goals, deterministic=True, workers=2, time_limit=0.3, seed=7))
        assert to_builtins(runs[0]) == to_builtins(runs[1])


def test_a_deterministic_improvement_gives_the_same_bytes_twice() -> None:
    for seed in range(3):
        objects = preferring(seed, "mixed")
        runs = [plan_of(objects, "improve", limits=Limits(minGain=0), deterministic=True, time_limit=1.0) for _ in range(2)]
        assert len({json.dumps(to_builtins(plan)) for plan in runs}) == 1


# --- choices ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("priority", "moved"), [(9, "q"), (None, "p")])
def test_costs_decide_which_of_two_moves(priority: int | None, moved: str) -> None:
    """Of the two, the one of high priority is dear by the policy, or the other one by its annotation."""
    objects = _pair()
    policy = Policy(moves=Moves(priorities=(PriorityCost(9, 5),))) if priority is not None else Policy()
    if priority is None:
        objects[3]["metadata"]["annotations"] = {"kubestow.dev/move-cost": "3"}
    plan = plan_of(objects, "consolidate", policy=policy, engine="exact")
    assert [name for name, *_ in _moves(plan)] == [moved]
    assert _tiers(plan)["moves"] == (-1, -1)
    assert plan.status == "optimal"


def test_two_cheap_moves_are_better_than_a_dear_one() -> None:
    objects = [node("n0"), node("n1"), *(running(f"p{i}", "n0", cpu="1") for i in range(2)), running("q", "n1", cpu="2")]
    objects[-1]["metadata"]["annotations"] = {"kubestow.dev/move-cost": "3"}
    plan = plan_of(objects, "consolidate")
    assert (plan.freed, _tiers(plan)["moves"]) == (["n0"], (-2, -2))


@pytest.mark.parametrize("engine", sampled(["greedy", "exact", "lns"], every=3))
def test_no_more_moves_than_asked_for(engine: str) -> None:
    objects = [*(node(f"n{i}") for i in range(3)), *(running(f"p{i}", f"n{i // 2}", cpu="500m") for i in range(6))]
    for max_moves, freed in ((1, 0), (3, 1), (4, 2)):
        plan = plan_of(objects, "consolidate", limits=Limits(maxMoves=max_moves), engine=engine, time_limit=1.0)
        assert (len(plan.freed), len(plan.moves)) == (freed, 2 * freed)


def test_limits_per_namespace_hold_for_each() -> None:
    """The pods differ in nothing but their namespace."""
    objects = [node("n0"), node("n1"), *(running(f"p{i}", "n0", namespace=space) for space in ("default", "other") for i in range(2))]
    plan = plan_of(objects, drain=["n0"], limits=Limits(maxMovesPerNamespace=1))
    assert sorted(move.pod.partition("/")[0] for move in plan.moves) == ["default", "other"]
    assert _tiers(plan)["drained"] == (-2, -2)


@pytest.mark.parametrize(("prices", "freed"), [(("9", "1", "1"), ["n0"]), (("1", "1", "9"), ["n2"]), (("2", "3", "4"), ["n1", "n2"])])
def test_the_dearest_nodes_are_freed(prices: tuple[str, ...], freed: list[str]) -> None:
    """Two of three small nodes, or one of them alone, hold what runs."""
    cpu = "900m" if len(freed) == 1 else "600m"
    objects = [node(f"n{i}", cpu="2", labels={"price": price}) for i, price in enumerate(prices)]
    plan = plan_of([*objects, *(running(f"p{i}", f"n{i}", cpu=cpu) for i in range(3))], "consolidate", policy=Policy(priceLabel="price"))
    assert plan.freed == freed
    kept = sum(int(price) for i, price in enumerate(prices) if f"n{i}" not in freed)
    assert _tiers(plan)["freed"] == (-1000 * kept,) * 2


def test_a_static_pod_breaks_no_rule_of_the_schedulers() -> None:
    """As on every control plane of kubeadm: its node is tainted, and the kubelet does not ask."""
    static = pod("etcd-n1", node_name="n1", tolerations=[{"operator": "Exists", "effect": "NoExecute"}])
    static["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "hash"}
    others = [pod("web", node_name="n1", owner="ReplicaSet/web"), node("n2", pods="0")]
    tainted = node("n1", taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}])
    assert plan_of([tainted, static, *others], "repair").before.rules == {"TaintToleration": 1}
