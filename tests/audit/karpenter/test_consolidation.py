"""Nodes that Karpenter could consolidate, on clusters that can be worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.audit.karpenter.planted import catalogue, judged, machine, node_pool, runs, shape, stays, steps
from tests.objects import Object, node, pod

BUDGET: Object = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "b", "namespace": "default"},
    "spec": {"selector": {"matchLabels": {"app": "a"}}, "minAvailable": 1},
}


def fleet(*cpus: str, size: str = "4") -> list[Object]:
    """A node for each pod; n1 has the first."""
    nodes = [machine(f"n{k}", cpu=size) for k in range(1, len(cpus) + 1)]
    return [*nodes, *(runs(f"p{k}", f"n{k}", cpu) for k, cpu in enumerate(cpus, 1) if cpu)]


def test_empty_nodes_go_first_and_at_once(tmp_path: Path) -> None:
    found = judged(tmp_path, node_pool(), fleet("", "", "3", "3"))
    assert steps(found) == [("empty", ["n1", "n2"])]
    assert found.commands[0].moves == 0
    assert set(stays(found)) == {"n3", "n4"}


def test_as_many_as_fit_elsewhere_go_together(tmp_path: Path) -> None:
    # 1 + 1 + 1 of 4: all fit one node. The search by halves takes the first two of three at once.
    found = judged(tmp_path, node_pool(), fleet("1", "1", "1"))
    assert steps(found) == [("multi", ["n1", "n2"])]
    assert found.optimum is not None
    assert (len(found.optimum.freed), found.optimum.bound, found.optimum.proved) == (2, 2, True)


def test_a_budget_of_one_takes_them_one_by_one(tmp_path: Path) -> None:
    # p1 goes to n2, which is then dearer to disrupt than n3.
    found = judged(tmp_path, node_pool(budgets=[{"nodes": "1"}]), fleet("1", "1", "1"))
    assert steps(found) == [("single", ["n1"]), ("single", ["n3"])]


def test_a_budget_of_none_blocks_all(tmp_path: Path) -> None:
    found = judged(tmp_path, node_pool(budgets=[{"nodes": "0"}]), fleet("", "1", "1"))
    assert not found.commands
    assert set(stays(found)) == {"n1", "n2", "n3"}
    assert all("budgets" in why for why in stays(found).values())


def test_a_node_at_work_on_elsewhere_counts_against_budgets(tmp_path: Path) -> None:
    things = fleet("1", "1", "1")
    things[2]["spec"]["taints"] = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    found = judged(tmp_path, node_pool(budgets=[{"nodes": "1"}]), things)
    assert found.pools[0].allowed == {"Empty": 0, "Underutilized": 0}


def test_what_is_dear_to_disrupt_goes_last(tmp_path: Path) -> None:
    # n1 has three small pods, n2 one: a node per price and disruption, n2 goes first.
    things = [machine("n1"), machine("n2"), *(runs(f"a{k}", "n1", "100m") for k in range(3)), runs("b", "n2", "1")]
    found = judged(tmp_path, node_pool(budgets=[{"nodes": "1"}]), things)
    assert steps(found) == [("single", ["n2"])]


@pytest.mark.parametrize(("cost", "first"), [("1e400", "n1"), ("1/3", "n1"), ("2147483647", "n2"), ("-2147483647", "n1")])
def test_a_cost_of_deletion_that_is_no_finite_number_counts_nothing(tmp_path: Path, cost: str, first: str) -> None:
    dear = runs("a", "n1")
    dear["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": cost}
    things = [machine("n1"), machine("n2"), dear, runs("b", "n2", "100m"), runs("c", "n2", "100m")]
    assert steps(judged(tmp_path, node_pool(budgets=[{"nodes": "1"}]), things))[0][1] == [first]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"node": {"karpenter.sh/do-not-disrupt": "true"}}, "its annotation karpenter.sh/do-not-disrupt"),
        ({"pod": {"karpenter.sh/do-not-disrupt": "true"}}, "pod default/p1 has the annotation"),
        ({"pod": {"karpenter.sh/do-not-disrupt": "30m"}}, "pod default/p1 has the annotation"),
        ({"labels": {"karpenter.sh/initialized": "false"}}, "it is not initialized"),
        ({"labels": {"topology.kubernetes.io/zone": None}}, "it has no label topology.kubernetes.io/zone"),
        ({"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}, "it is being deleted or disrupted"),
        ({"budget": True}, "PodDisruptionBudget default/b does not allow evicting pod default/p1 now"),
        ({"pool": {"consolidateAfter": "Never"}}, "consolidateAfter: Never"),
        ({"pool": {"consolidationPolicy": "WhenEmpty"}}, "consolidates only WhenEmpty"),
        ({"pod": {"karpenter.sh/do-not-disrupt": "no"}}, None),
    ],
)
def test_what_blocks_a_node_is_said(tmp_path: Path, change: dict[str, Any], said: str | None) -> None:
    things = fleet("1", "3")
    things[0]["metadata"].setdefault("annotations", {}).update(change.get("node", {}))
    things[2]["metadata"].setdefault("annotations", {}).update(change.get("pod", {}))
    things[2]["metadata"]["labels"] = {"app": "a" if change.get("budget") else "other"}
    things[3]["metadata"]["labels"] = {"app": "other"}
    for key, value in change.get("labels", {}).items():
        if value is None:
            del things[0]["metadata"]["labels"][key]
        else:
            things[0]["metadata"]["labels"][key] = value
    things[0]["spec"]["taints"] = change.get("taints", [])
    found = judged(tmp_path, node_pool(**change.get("pool", {})), [*things, BUDGET])
    if said is None:
        assert "n1" in found.commands[0].nodes
    else:
        assert said in stays(found)["n1"]


def test_nodes_of_nobody_or_of_other_pools_are_counted_and_take_pods(tmp_path: Path) -> None:
    things = [machine("n1"), node("plain"), machine("else", pool="q"), runs("p", "n1")]
    found = judged(tmp_path, node_pool(), things)
    assert found.unmanaged == 2
    assert steps(found) == [("single", ["n1"])]


def test_bare_pods_are_named_as_lost(tmp_path: Path) -> None:
    found = judged(tmp_path, node_pool(), [machine("n1"), machine("n2"), pod("bare", node_name="n1"), runs("p", "n2", "2")])
    assert found.commands[0].lost == ["default/bare"]


def test_rules_of_pods_hold_in_the_simulation(tmp_path: Path) -> None:
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
    things = [machine("n1"), machine("n2"), runs("p1", "n1", affinity=apart), runs("p2", "n2", affinity=apart)]
    found = judged(tmp_path, node_pool(), things)
    assert not found.commands
    assert "fits no other node (default/p1)" in stays(found)["n1"]


# --- with prices ----------------------------------------------------------------------------------------------------------------------


def test_a_node_is_replaced_by_the_cheapest_that_takes_its_pods(tmp_path: Path) -> None:
    offers = catalogue(tmp_path, shape("big", "8", 0.4), shape("small", "2", 0.1), shape("tiny", "1", 0.05), shape("middle", "4", 0.2))
    things = [machine("n1", "big", cpu="8"), runs("p1", "n1", "1500m")]
    found = judged(tmp_path, node_pool(), things, offers)
    (command,) = found.commands
    assert (command.method, command.replacement, command.saves) == ("single", "small@a", 0.3)
    assert (found.costBefore, found.costAfter) == (0.4, 0.1)
    assert found.optimum is not None
    assert (found.optimum.cheapest, found.optimum.cheapestBound) == (0.1, 0.1)


@pytest.mark.parametrize(
    ("requirements", "replaced"),
    [
        ([{"key": "node.kubernetes.io/instance-type", "operator": "NotIn", "values": ["small"]}], "middle@a"),
        ([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}], None),
        ([{"key": "example.com/cpu", "operator": "Gt", "values": ["2"]}], "middle@a"),
        ([{"key": "example.com/unheard", "operator": "Exists"}], "small@a"),
    ],
)
def test_requirements_of_the_pool_hold_for_replacements(tmp_path: Path, requirements: list[Object], replaced: str | None) -> None:
    sizes = (("big", "8", 0.4), ("middle", "4", 0.2), ("small", "2", 0.1))
    offers = catalogue(tmp_path, *(shape(name, cpu, price, labels={"example.com/cpu": cpu}) for name, cpu, price in sizes))
    things = [machine("n1", "big", cpu="8"), runs("p1", "n1", "1500m")]
    found = judged(tmp_path, node_pool(requirements=requirements), things, offers)
    assert [command.replacement for command in found.commands] == ([replaced] if replaced else [])
    assert any("example.com/unheard" in text for text in found.notModelled) == (requirements[0]["key"] == "example.com/unheard")


def test_limits_of_the_pool_hold_for_replacements(tmp_path: Path) -> None:
    offers = catalogue(tmp_path, shape("big", "8", 0.4), shape("small", "2", 0.1))
    plain = node_pool()
    plain["spec"]["limits"] = {"cpu": "1"}
    assert not judged(tmp_path, plain, [machine("n1", "big", cpu="8"), runs("p1", "n1", "1500m")], offers).commands


def test_spot_nodes_are_deleted_and_not_replaced_by_spot_nodes(tmp_path: Path) -> None:
    offers = catalogue(tmp_path, shape("big", "8", 0.4, spot=True), shape("small", "2", 0.1, spot=True))
    things = [machine("n1", "big", cpu="8", spot=True), runs("p1", "n1", "1500m")]
    found = judged(tmp_path, node_pool(), things, offers)
    assert not found.commands
    assert "SpotToSpotConsolidation" in stays(found)["n1"]


def test_several_nodes_are_not_replaced_by_one_of_a_type_of_theirs(tmp_path: Path) -> None:
    # 3 + 3 of 4 each: only one node of 8 takes both, and it costs less than two small nodes.
    offers = catalogue(tmp_path, shape("small", "4", 0.3), shape("big", "8", 0.5))
    things = fleet("3", "3")
    found = judged(tmp_path, node_pool(), things, offers)
    assert [(command.method, command.replacement, command.saves) for command in found.commands] == [("multi", "big@a", 0.1)]
    dear = catalogue(tmp_path, shape("small", "8", 0.3), shape("big", "8", 0.5))  # now one of their own type would do, so none is bought
    assert not judged(tmp_path, node_pool(), things, dear).commands


def test_a_type_that_the_catalogue_lacks_blocks_all_but_empty_nodes(tmp_path: Path) -> None:
    offers = catalogue(tmp_path, shape("big", "8", 0.4))
    found = judged(tmp_path, node_pool(), fleet("", "1"), offers)
    assert steps(found) == [("empty", ["n1"])]
    assert stays(found) == {"n2": "the catalogue has no instance type 'small'"}
