"""Both dialects of NodeResourceTopology, socket grouping and closeness; hand-written expectations."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.models.kube import topology_objects
from kubestow.models.numa import node_topology
from kubestow.models.numa.node_topology import NumaTree, TopologyError

Object = dict[str, Any]
GIB = 2**30
SINGLE = {"name": "topologyManagerPolicy", "value": "single-numa-node"}


def read(*zones: Object, **fields: Any) -> NumaTree | None:
    found = {"metadata": {"name": "n"}, "zones": list(zones), **fields}
    return node_topology.tree(msgspec.convert(found, topology_objects.NodeResourceTopology))


def tree(*zones: Object, **fields: Any) -> NumaTree:
    found = read(*zones, **fields)
    assert found is not None
    return found


def zone(name: str, kind: str = "Node", parent: str | None = None, costs: dict[str, int] | None = None, **resources: Any) -> Object:
    found: Object = {"name": name, "type": kind, "resources": [{"name": n, **amounts} for n, amounts in resources.items()]}
    if parent is not None:
        found["parent"] = parent
    if costs is not None:
        found["costs"] = [{"name": n, "value": v} for n, v in costs.items()]
    return found


def pools(*, dies: bool = False) -> list[Object]:
    """Two sockets with two NUMA nodes each, as nri-plugins lists them."""
    found = [zone("root", "virtual node")]
    for s in (0, 1):
        found.append(zone(f"socket #{s}", "socket", "root", cpu={"capacity": "999"}))
        for n in (2 * s, 2 * s + 1):
            above = f"socket #{s}"
            if dies:
                found.append(zone(f"die #{s}/{n}", "die", above, cpu={"capacity": "99"}))
                above = f"die #{s}/{n}"
            found.append(zone(f"NUMA node #{n}", "numa node", above, cpu={"capacity": str(n + 1)}))
    return found


# --- zones --------------------------------------------------------------------------------------------------------------


def test_the_example_of_the_specification() -> None:
    found = tree(
        zone(
            "node-0",
            parent="socket-0",
            costs={"node-0": 10, "node-1": 21},
            cpu={"capacity": "32", "allocatable": "30", "available": "22"},
            memory={"capacity": "128Gi", "allocatable": "120Gi", "available": "96Gi"},
        ),
        attributes=[SINGLE, {"name": "topologyManagerScope", "value": "container"}],
    )
    assert found == NumaTree(
        zones=("node-0",),
        socket=(0,),
        available=({"cpu": 22_000, "memory": 96 * GIB},),
        capacity=({"cpu": 30_000, "memory": 120 * GIB},),
        policy="single-numa-node",
        scope="container",
    )


def test_zones_come_in_the_order_of_their_numbers_and_those_without_a_number_last_in_input_order() -> None:
    names = ["node-10", "zeta", "node-2", "alpha", "node-0", "node-" + "1" * 5000]
    assert tree(*(zone(name) for name in names)).zones == ("node-0", "node-2", "node-10", "node-" + "1" * 5000, "zeta", "alpha")


@pytest.mark.parametrize("dies", [False, True])
def test_only_the_leaves_of_a_pool_tree_are_zones(dies: bool) -> None:
    found = tree(*reversed(pools(dies=dies)))
    assert found.zones == ("NUMA node #0", "NUMA node #1", "NUMA node #2", "NUMA node #3")
    assert found.socket == (0, 0, 1, 1)
    assert [z["cpu"] for z in found.capacity] == [1000, 2000, 3000, 4000]


def test_type_names_in_any_case() -> None:
    found = tree(zone("a-0", "NUMA Node", "s"), zone("s", "SOCKET", "r"), zone("r", "Root"))
    assert (found.zones, found.socket) == (("a-0",), (0,))


def test_a_socket_without_numa_nodes_is_the_zone() -> None:
    found = tree(zone("root", "virtual node"), zone("socket #1", "socket", "root"), zone("socket #0", "socket", "root"))
    assert (found.zones, found.socket) == (("socket #0", "socket #1"), (0, 1))


def test_a_socket_without_numa_nodes_beside_one_with() -> None:
    found = tree(zone("s0", "socket"), zone("s1", "socket"), zone("n2", "numa node", "s1"), zone("n3", "numa node", "s1"))
    assert found.zones == ("s0", "n2", "n3")
    assert found.socket == (0, 1, 1)


def test_a_die_without_numa_nodes_stands_for_its_only_one() -> None:
    # nri-plugins leaves out a NUMA node that would be the only child of its die.
    sockets = [zone(f"socket #{s}", "socket", "root") for s in (0, 1)]
    found = tree(*sockets, *(zone(f"die #{s}/{d}", "die", f"socket #{s}") for d in (0, 1) for s in (0, 1)))
    assert found.zones == ("die #0/0", "die #0/1", "die #1/0", "die #1/1")
    assert found.socket == (0, 0, 1, 1)


@pytest.mark.parametrize("root", ["node", "Node", "root", "virtual node", "machine"])
def test_the_root_of_the_machine_is_no_zone_whatever_its_type(root: str) -> None:
    sockets = [zone("socket #0", "socket", "top"), zone("socket #1", "socket", "top")]
    assert tree(zone("top", root), *sockets).zones == ("socket #0", "socket #1")
    assert tree(zone("top", root), *pools()[1:]).zones == tree(*pools()).zones


def test_sockets_listed_among_zones_of_type_node() -> None:
    found = tree(zone("socket-0", "Socket"), zone("node-0", "Node", "socket-0"), zone("node-1", "Node", "socket-0"))
    assert (found.zones, found.socket) == (("node-0", "node-1"), (0, 0))


def test_without_numa_zones_there_is_no_tree() -> None:
    assert read() is None
    assert read(zones=None) is None
    assert read(zone("root", "virtual node"), zone("cache", "L3")) is None


# --- sockets ------------------------------------------------------------------------------------------------------------


def test_sockets_by_parents_that_are_not_listed_come_before_costs() -> None:
    costs = {f"node-{n}": 10 for n in range(3)}
    found = tree(*(zone(f"node-{n}", parent=f"socket-{s}", costs=costs) for n, s in ((0, 7), (1, 3), (2, 7))))
    assert found.socket == (0, 1, 0)


def test_zones_without_parent_beside_others_share_a_socket() -> None:
    assert tree(zone("a-0"), zone("a-1", parent="s"), zone("a-2"), zone("a-3", parent="s")).socket == (0, 1, 0, 1)


def costed(*rows: list[int]) -> NumaTree:
    return tree(*(zone(f"node-{a}", costs={f"node-{b}": cost for b, cost in enumerate(row)}) for a, row in enumerate(rows)))


def test_sockets_by_cost() -> None:
    assert costed([10, 11, 21, 21], [11, 10, 21, 21], [21, 21, 10, 11], [21, 21, 11, 10]).socket == (0, 0, 1, 1)
    assert costed([10, 21, 11, 21], [21, 10, 21, 11], [11, 21, 10, 21], [21, 11, 21, 10]).socket == (0, 1, 0, 1)


def test_sockets_by_cost_are_closed_under_neighbours() -> None:
    assert costed([10, 11, 21, 30], [11, 10, 11, 30], [21, 11, 10, 30], [30, 30, 30, 10]).socket == (0, 0, 0, 1)


def test_equal_costs_make_one_socket() -> None:
    assert costed([10, 21, 21], [21, 10, 21], [21, 21, 10]).socket == (0, 0, 0)
    assert costed([10, 21], [21, 10]).socket == (0, 0)


def test_a_cost_given_in_one_direction_only_and_costs_of_unknown_zones() -> None:
    found = tree(zone("n0", costs={"n2": 11, "gone": 1}), zone("n1", costs={"n0": 21}), zone("n2"))
    assert found.socket == (0, 1, 0)


def test_costs_count_where_the_only_parent_is_the_root() -> None:
    cost = [{"n1": 11, "n2": 20}, {"n0": 11, "n2": 20}, {"n0": 20, "n1": 20}]
    assert tree(zone("root", "virtual"), *(zone(f"n{i}", parent="root", costs=cost[i]) for i in range(3))).socket == (0, 0, 1)


def test_one_socket_if_nothing_tells() -> None:
    assert tree(*(zone(f"node-{n}") for n in range(4))).socket == (0, 0, 0, 0)


# --- amounts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listed", "available", "capacity"),
    [
        ({"capacity": "8", "allocatable": "6", "available": "3"}, 3000, 6000),
        ({"capacity": "8", "allocatable": "6"}, 6000, 6000),
        ({"capacity": "8"}, 8000, 8000),
        ({"available": "3"}, 3000, 3000),
        ({"capacity": "8", "available": "3"}, 3000, 8000),
        ({"allocatable": "6", "available": "-1"}, 0, 6000),
        ({"allocatable": "1.9999", "available": "500m"}, 500, 1999),
        ({"allocatable": 2, "available": 0}, 0, 2000),
    ],
)
def test_what_is_left_and_what_there_is(listed: Object, available: int, capacity: int) -> None:
    found = tree(zone("node-0", cpu=listed))
    assert (found.available, found.capacity) == (({"cpu": available},), ({"cpu": capacity},))


def test_other_resources_in_whole_units_and_without_amount_not_listed() -> None:
    found = tree(zone("node-0", memory={"capacity": "1.5Ki"}, nic={"available": "2"}, hugepages={}))
    assert found.capacity == ({"memory": 1536, "nic": 2},)


# --- the Topology Manager -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policies", "policy", "scope"),
    [
        (["SingleNUMANodeContainerLevel"], "single-numa-node", "container"),
        (["SingleNUMANodePodLevel"], "single-numa-node", "pod"),
        (["RestrictedContainerLevel"], "restricted", "container"),
        (["RestrictedPodLevel"], "restricted", "pod"),
        (["BestEffortContainerLevel"], "best-effort", "container"),
        (["BestEffortPodLevel"], "best-effort", "pod"),
        (["RestrictedPodLevel", "SingleNUMANodeContainerLevel"], "restricted", "pod"),
        (["None"], "none", "container"),
        (["Other", "RestrictedPodLevel"], "none", "container"),
        ([], "none", "container"),
        (None, "none", "container"),
    ],
)
def test_deprecated_policies(policies: list[str] | None, policy: str, scope: str) -> None:
    found = tree(zone("node-0"), topologyPolicies=policies)
    assert (found.policy, found.scope) == (policy, scope)
    assert found.rejects is (policy in ("restricted", "single-numa-node"))


def test_attributes_override_each_on_its_own() -> None:
    only_policy = tree(zone("node-0"), topologyPolicies=["RestrictedPodLevel"], attributes=[SINGLE, {"name": "other", "value": "x"}])
    assert (only_policy.policy, only_policy.scope) == ("single-numa-node", "pod")
    scope = {"name": "topologyManagerScope", "value": "container"}
    only_scope = tree(zone("node-0"), topologyPolicies=["RestrictedPodLevel"], attributes=[scope])
    assert (only_scope.policy, only_scope.scope) == ("restricted", "container")


# --- bad input ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zones", "fields", "says"),
    [
        ([zone("a"), zone("b"), zone("a")], {}, "'a' is listed twice"),
        ([zone("a", parent="b"), zone("b", parent="a")], {}, "cycle"),
        ([zone("a", parent="a")], {}, "cycle"),
        ([zone("a", parent="b"), zone("b", parent="c"), zone("c", parent="b")], {}, "cycle"),
        ([zone("a")], {"attributes": [{"name": "topologyManagerPolicy", "value": "Restricted"}]}, "'Restricted' is none of none,"),
        ([zone("a")], {"attributes": [{"name": "topologyManagerScope", "value": "node"}]}, "'node' is none of container, pod"),
        ([zone("a", cpu={"capacity": "many"})], {}, "zone 'a': resource 'cpu': 'many' is not a quantity"),
        ([zone("a", memory={"capacity": "100E", "available": "1"})], {}, "64 bits"),
        ([zone("a") | {"resources": [{"name": "cpu", "capacity": 1}] * 2}], {}, "resource 'cpu' is listed twice"),
    ],
)
def test_bad_input_is_one_line(zones: list[Object], fields: Object, says: str) -> None:
    with pytest.raises(TopologyError, match=says) as error:
        read(*zones, **fields)
    assert "\n" not in str(error.value)


# --- closeness ----------------------------------------------------------------------------------------------------------


def test_levels() -> None:
    found = tree(*pools(dies=True))
    assert found.lowest(0b0001, 0b0001) == 2
    assert found.lowest(0b0001, 0b0010) == 1
    assert found.lowest(0b0011, 0b0001) == 1
    assert found.lowest(0b0011, 0b0011) == 1
    assert found.lowest(0b0001, 0b0100) == 0
    assert found.lowest(0b1100, 0b0100) == 1
    assert found.lowest(0b0110, 0b0010) == 0  # the first set already spans both sockets
    assert found.lowest(0, 0b0001) == found.lowest(0, 0) == 0


def test_the_only_zone_of_a_node_is_the_same_zone() -> None:
    assert tree(zone("node-0")).lowest(1, 1) == 2


@given(st.integers(1, 15), st.integers(1, 15))
def test_the_level_is_symmetric_and_falls_as_sets_grow(a: int, b: int) -> None:
    found = tree(*pools())
    assert found.lowest(a, b) == found.lowest(b, a) <= found.lowest(a, a)
