"""The tie-break `spread`: pods without requests count in it as kube-scheduler supposes, and nowhere else; small loads count, too."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from kubestow.checker.placement import verify
from kubestow.models.kube import pod_requests
from kubestow.models.kube.feature_gates import DEFAULT as GATES
from kubestow.models.kube.pod_requests import supposed_more
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.objective.tie_break import bend, kinks
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.rebalance import rebalance
from kubestow.solver.runtime.options import Engine, Options
from kubestow.solver.solve import place
from tests.objects import Object, node, pod

MIB = 2**20


def idle(name: str, *containers: Object, init: tuple[Object, ...] = (), **more: Any) -> Object:
    """A pod whose containers ask for nothing unless they say so."""
    result = pod(name, **more)
    result["spec"]["containers"] = list(containers) or [{"name": "c", "image": "i"}]
    if init:
        result["spec"]["initContainers"] = list(init)
    return result


def asks(name: str, more: Object | None = None, **requests: str) -> Object:
    return {"name": name, "image": "i", "resources": {"requests": requests}, **(more or {})}


@pytest.mark.parametrize("engine", ["auto", "greedy", "exact", "lns"])
@pytest.mark.parametrize(("cpu", "memory"), [("4", "8Gi"), ("16", "64Gi"), ("64", "256Gi")])
def test_pods_without_requests_do_not_share_one_idle_node(engine: Engine, cpu: str, memory: str) -> None:
    """Seven of them on seven nodes, by all engines and on machines of every size: one each."""
    objects = [*(node(f"n{i}", cpu=cpu, memory=memory) for i in range(7)), *(idle(f"p{i}") for i in range(7))]
    snapshot = from_objects(objects)
    placement = place(snapshot, Options(engine=engine, time_limit=5, workers=1))
    assert len({entry.node for entry in placement.assignments}) == 7
    assert verify(snapshot, placement) == []


def test_running_pods_without_requests_count_too() -> None:
    """A node with four of them is the fuller one."""
    running = [idle(f"r{i}", node_name="n0") for i in range(4)]
    placement = place(from_objects([node("n0"), node("n1"), *running, idle("p")]), Options(time_limit=5, workers=1))
    assert [entry.node for entry in placement.assignments] == ["n1"]


def test_what_is_supposed_takes_no_room() -> None:
    """All pod slots of a node without a free CPU can be taken by pods without requests, the load of which is beyond the node's."""
    full = [node("n0", cpu="1", memory="1Gi", pods="30"), pod("big", node_name="n0", cpu="1", memory="1Gi")]
    snapshot = from_objects([*full, *(idle(f"p{i}") for i in range(29))])
    for engine in ("auto", "exact"):
        placement = place(snapshot, Options(engine=engine, time_limit=5, workers=1, search_strategy=True))
        assert (len(placement.assignments), placement.status, verify(snapshot, placement)) == (29, "optimal", [])


def test_plans_even_them_out() -> None:
    """Improving moves one of two hundred pods without requests after the other off a node, towards an idle one."""
    pods = [idle(f"p{i}", node_name="n0", owner="ReplicaSet/r") for i in range(20)]
    snapshot = from_objects([node("n0"), node("n1"), *pods])
    plan = rebalance(snapshot, PlanOptions(("improve",), options=Options(time_limit=5, workers=1)))
    assert 5 <= len(plan.moves) <= 10


@pytest.mark.parametrize(
    ("made", "more"),
    [
        (pod("p"), (0, 0)),
        (idle("p"), (100, 200 * MIB)),
        (idle("p", asks("a"), asks("b")), (200, 400 * MIB)),
        (idle("p", asks("a", cpu="1"), asks("b", memory="1Gi")), (100, 200 * MIB)),
        (idle("p", asks("a", cpu="0", memory="0")), (0, 0)),  # zero is a request
        (idle("p", asks("a", cpu="50m", memory="1Gi"), init=(asks("i"),)), (50, 0)),  # the init container alone: 100m
        (idle("p", asks("a", cpu="1"), init=(asks("s", {"restartPolicy": "Always"}),)), (100, 400 * MIB)),
        (idle("p", resources={"requests": {"cpu": "1"}}), (0, 200 * MIB)),  # the pod's own request is what counts
        (idle("p", {"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}), (0, 200 * MIB)),  # a limit counts as a request
    ],
)
def test_what_is_supposed_of_containers(made: Object, more: tuple[int, int]) -> None:
    (parsed,) = from_objects([made]).pods
    assert supposed_more(parsed, pod_requests.pod_request(parsed, GATES), GATES) == more


def test_the_cost_is_convex_and_exact_where_pieces_meet() -> None:
    u = np.arange(0, 3001)
    cost = bend(u)
    assert (np.diff(cost, 2) >= 0).all()
    assert all(cost[k] == k * k for k in [*range(10), *range(10, 100, 10), *range(100, 3001, 100)])
    pieces = list(kinks(3, 1000))
    assert (pieces[0], pieces[-1]) == ((3, 4), (900, 1000))
    assert all(before[1] == after[0] for before, after in pairwise(pieces))
