"""Regression tests: incomplete bounds, needless evictions, and pods that had to move twice."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.documents.rebalance_plan import Limits, RebalancePlan
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.rebalance import rebalance
from kubestow.solver.runtime.options import Options
from tests.objects import Object, node, pod


def plan(objects: list[Object], *goals: str, drain: tuple[str, ...] = (), engine: Any = "auto", **limits: Any) -> RebalancePlan:
    plan_options = PlanOptions(goals, drain, Limits(**limits), Options(engine=engine, time_limit=20))
    return rebalance(from_objects(objects), plan_options)


def likes(*wanted: tuple[str, int]) -> Object:
    preferred = [{"weight": w, "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]}} for key, w in wanted]
    return {"preferredDuringSchedulingIgnoredDuringExecution": preferred}


@pytest.mark.parametrize("far", [False, True])
def test_pods_that_run_found_their_own_domain(far: bool) -> None:
    """The bound took the zone of the fixed pod for the only one that h can be in, and x for settled where it is."""
    near = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "h"}}}]}
    objects = [
        node("n1", labels={"zone": "a"}),
        node("n2", labels={"zone": "a", "good": "y"}),
        node("n3", labels={"zone": "b"}),
        node("n4", labels={"zone": "a", "fair": "y"}),
        pod("x", cpu="3", node_name="n2", owner="ReplicaSet/x", affinity={"nodeAffinity": likes(("good", 60))}),
    ]
    if far:
        objects.append(pod("f", node_name="n3", cpu="0", memory="0", owner="DaemonSet/f", labels={"app": "h"}))
    both = {"podAffinity": near, "nodeAffinity": likes(("good", 100), ("fair", 10))}
    objects += [pod(f"h{i}", cpu="1", node_name="n1", owner="ReplicaSet/h", labels={"app": "h"}, affinity=both) for i in range(2)]
    values = {}
    for engine in ("greedy", "exact"):
        found = plan(objects, "improve", engine=engine)
        values[engine] = found.objective[0].value
        assert found.objective[0].bound >= found.objective[0].value
    assert plan(objects, "improve", engine="exact").objective[0].bound >= values["greedy"]
    assert {entry.to for entry in plan(objects, "improve", engine="exact").moves if entry.pod.startswith("default/h")} == {"n2"}


@pytest.mark.parametrize("goal", ["consolidate", "improve"])
def test_nobody_is_evicted_so_that_nodes_or_balance_gain(goal: str) -> None:
    objects = [node("n1"), node("n2"), node("n3"), pod("p", cpu="1", node_name="n1", owner="ReplicaSet/p")]
    objects.append(pod("q", cpu="3", node_name="n2", owner="ReplicaSet/q"))
    found = plan(objects, goal, drain=("n1",), allowEviction=True)
    assert not found.evictions
    assert [move.pod for move in found.moves if move.source == "n1"] == ["default/p"]


def test_a_pod_that_needs_no_budget_now_moves_once_only() -> None:
    """Its replacement is Ready, and the budget would refuse it for ever."""

    def bound(name: str, where: str, to: str, app: str, *, ready: bool = True) -> Object:
        found = pod(name, cpu="3", node_name=where, owner=f"ReplicaSet/{app}", labels={"app": app})
        found["spec"]["affinity"] = {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "name", "operator": "In", "values": to.split(",")}]}]
                }
            }
        }
        found["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
        return found

    def objects(*, ready: bool) -> list[Object]:
        found = [node(name, labels={"name": name}) for name in ("left", "right", "spare")]
        found += [bound("p", "left", "right", "p"), bound("q", "right", "left,spare", "q", ready=ready)]
        found += [bound("r", "spare", "spare", "r")] if ready is None else []
        budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "q"}}, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
        found.append(
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "q", "namespace": "default"}, "spec": budget}
        )
        return found

    found = plan(objects(ready=False), "repair")
    moved = [move.pod for move in found.moves]
    assert moved.count("default/q") == 1  # to spare, where it may stay
    assert moved.count("default/p") == 1
