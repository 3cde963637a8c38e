"""The simulated Topology Manager, rule by rule, and that the random clusters are a test: naive placements do not survive it."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import msgspec
import pytest

from kubestow.models.kube import objects, pod_requests
from kubestow.models.kube.feature_gates import DEFAULT as GATES
from kubestow.models.numa import node_topology
from kubestow.models.snapshot.snapshot import from_objects
from tests.numa_clusters import NIC, TPU, cluster
from tests.topology_manager import Outcome, manager, simulate

Object = dict[str, Any]
SEEDS = range(200)
ALLOCATABLE = {"cpu": "64", "memory": "256Gi", NIC: "8", TPU: "8", "ephemeral-storage": "100Gi", "hugepages-2Mi": "1Gi"}


def node(*zones: Object, policy: str = "single-numa-node", scope: str = "container") -> Object:
    attributes = [{"name": "topologyManagerPolicy", "value": policy}, {"name": "topologyManagerScope", "value": scope}]
    return {"metadata": {"name": "n"}, "attributes": attributes, "zones": list(zones)}


def zone(number: int, cpu: str, memory: str = "8Gi", *, left: dict[str, str] | None = None, others: dict[str, str] | None = None) -> Object:
    amounts = {"cpu": cpu, "memory": memory, **(others or {})}
    listed = [{"name": n, "capacity": q, "allocatable": q, "available": (left or {}).get(n, q)} for n, q in amounts.items()]
    return {"name": f"node-{number}", "type": "Node", "resources": listed}


def container(name: str, cpu: str | int = "1", memory: str = "1Gi", *, limits: bool = True, others: dict[str, str] | None = None) -> Object:
    asked: Object = {"cpu": cpu, "memory": memory}
    return {"name": name, "resources": {"requests": asked | (others or {}), "limits": (asked if limits else {}) | (others or {})}}


def sidecar(name: str, cpu: str | int, memory: str = "1Gi") -> Object:
    return container(name, cpu, memory) | {"restartPolicy": "Always"}


def pod(*containers: Object, init: list[Object] | None = None) -> Object:
    return {"metadata": {"name": "p"}, "spec": {"containers": list(containers), "initContainers": init or []}}


def run(found: Object, *pods: Object) -> list[Outcome]:
    return simulate(found, ALLOCATABLE, pods)


def rejected(name: str = "") -> Outcome:
    return Outcome("TopologyAffinityError", container=name)


def admitted(**zones: str) -> Outcome:
    """``a="02"``: container a got node-0 and node-2."""
    return Outcome("admitted", {name: tuple(f"node-{n}" for n in numbers) for name, numbers in zones.items()})


# --- single-numa-node ---------------------------------------------------------------------------------------------------


def test_the_first_zone_by_id_that_holds_all_of_a_container() -> None:
    found = node(zone(10, "8"), zone(2, "4"), zone(1, "2"), zone(0, "8", "1Gi"))
    assert run(found, pod(container("a", 4, "2Gi"))) == [Outcome("admitted", {"a": ("node-2",)})]
    assert run(found, pod(container("a", 5, "2Gi"))) == [Outcome("admitted", {"a": ("node-10",)})]


def test_no_zone_has_both_although_the_node_has() -> None:
    assert run(node(zone(0, "4", "1Gi"), zone(1, "1", "8Gi")), pod(container("a", 2, "2Gi"))) == [rejected("a")]


def test_containers_and_pods_take_what_they_get_one_after_the_other() -> None:
    found = node(zone(0, "4"), zone(1, "4"))
    assert run(
        found, pod(container("a", 3), container("b", 2)), pod(container("c", 1)), pod(container("d", 2)), pod(container("e", 1))
    ) == [
        admitted(a="0", b="1"),
        admitted(c="0"),
        admitted(d="1"),
        rejected("e"),
    ]


def test_a_pod_that_is_turned_away_holds_nothing() -> None:
    found = node(zone(0, "4"))
    assert run(found, pod(container("a", 3), container("b", 2)), pod(container("c", 4))) == [rejected("b"), admitted(c="0")]


def test_what_is_available_counts_not_the_capacity() -> None:
    assert run(node(zone(0, "4", left={"cpu": "1"}), zone(1, "4", left={"cpu": "-2"})), pod(container("a", 2))) == [rejected("a")]


def test_order_of_arrival_decides() -> None:
    small, large = pod(container("s", 2)), pod(container("l", 4))
    found = node(zone(0, "4"), zone(1, "2"))
    assert run(found, small, large) == [admitted(s="0"), rejected("l")]
    assert run(found, large, small) == [admitted(l="0"), admitted(s="1")]


# --- init containers and sidecars ---------------------------------------------------------------------------------------


def test_init_containers_are_tried_alone_and_keep_nothing() -> None:
    found = node(zone(0, "4"))
    assert run(found, pod(container("a", 4), init=[container("i", 4), container("j", 3)])) == [admitted(i="0", j="0", a="0")]
    assert run(found, pod(container("a", 1), init=[container("i", 5)])) == [rejected("i")]


def test_sidecars_keep_what_they_get() -> None:
    found = node(zone(0, "4"))
    assert run(found, pod(container("a", 3), init=[sidecar("s", 1), container("i", 3)])) == [admitted(s="0", i="0", a="0")]
    assert run(found, pod(container("a", 1), init=[sidecar("s", 1), container("i", 4)])) == [rejected("i")]
    assert run(found, pod(container("a", 1), init=[container("i", 4), sidecar("s", 1)])) == [admitted(i="0", s="0", a="0")]
    assert run(found, pod(container("a", 4), init=[sidecar("s", 1)])) == [rejected("a")]


# --- alignment ----------------------------------------------------------------------------------------------------------


def test_of_other_than_guaranteed_pods_only_devices_are_aligned() -> None:
    nics = node(zone(0, "4", others={NIC: "1"}), zone(1, "4", others={NIC: "2"}))
    assert run(nics, pod(container("a", 60, limits=False)), pod({"name": "b"})) == [admitted(a=""), admitted(b="")]
    devices = pod(container("a", 60, limits=False, others={NIC: "2"}))
    assert run(nics, devices, devices) == [admitted(a="1"), rejected("a")]


def test_a_guaranteed_container_with_a_fraction_of_a_cpu_is_aligned_by_memory_alone() -> None:
    found = node(zone(0, "2", "1Gi"), zone(1, "2", "4Gi"))
    assert run(found, pod(container("a", "3500m", "2Gi"), container("b", 2, "1Gi"))) == [admitted(a="1", b="0")]


def test_zero_requests_are_ignored() -> None:
    assert run(node(zone(0, "4")), pod(container("a", 4, others={NIC: "0", "kubernetes.io/x": "0"}))) == [admitted(a="0")]


def test_a_resource_that_no_zone_lists() -> None:
    found = node(zone(0, "4"))
    for name in (TPU, "ephemeral-storage"):
        assert run(found, pod(container("a", 4, others={name: "1"}))) == [admitted(a="0")]
    for name in ("example.com/absent", "hugepages-2Mi"):
        assert run(found, pod(container("a", 4, others={name: "1"}))) == [rejected("a")]
    assert run(found, pod(container("a", 4, limits=False, others={TPU: "1"}))) == [admitted(a="")]


# --- restricted ---------------------------------------------------------------------------------------------------------


def test_as_few_zones_as_the_capacity_allows_and_no_more() -> None:
    found = node(zone(0, "4", left={"cpu": "2"}), zone(1, "4", left={"cpu": "2"}), policy="restricted")
    assert run(found, pod(container("a", 3))) == [rejected("a")]  # one zone would do if it were empty
    assert run(found, pod(container("a", 5))) == [rejected("a")]  # two zones, but not enough left
    assert run(found, pod(container("a", 2))) == [admitted(a="0")]
    assert run(found, pod(container("a", 9))) == [rejected("a")]  # beyond the node


def test_wide_requests_take_the_first_sufficient_set_in_bitmask_order() -> None:
    found = node(*(zone(n, "4", left={"cpu": "1" if n == 0 else "4"}) for n in range(4)), policy="restricted")
    # {0, 1} and {0, 2} are too small; {1, 2} = 0b0110 comes before {0, 3} = 0b1001
    assert run(found, pod(container("a", 6))) == [admitted(a="12")]
    assert run(found, pod(container("a", 5))) == [admitted(a="01")]


def test_amounts_come_from_the_lowest_zone_upwards() -> None:
    found = node(zone(0, "4"), zone(1, "4"), policy="restricted")
    assert run(found, pod(container("a", 5)), pod(container("b", 3)), pod(container("c", 1))) == [
        admitted(a="01"),
        admitted(b="1"),
        rejected("c"),
    ]


def test_every_resource_must_fit_the_set_in_sum() -> None:
    found = node(zone(0, "4", "8Gi"), zone(1, "4", "2Gi"), zone(2, "4", "8Gi"), policy="restricted")
    assert run(found, pod(container("a", 2, "12Gi"))) == [admitted(a="02")]


def test_devices_need_as_many_zones_as_their_capacity_says() -> None:
    found = node(zone(0, "4", others={NIC: "1"}), zone(1, "4", others={NIC: "1"}), policy="restricted")
    asked = pod(container("a", 1, limits=False, others={NIC: "2"}))
    assert run(found, asked, asked) == [admitted(a="01"), rejected("a")]
    assert run(node(*found["zones"]), asked) == [rejected("a")]  # single-numa-node


def test_three_zones() -> None:
    found = node(*(zone(n, "4") for n in range(4)), policy="restricted")
    assert run(found, pod(container("x", 1)), pod(container("a", 12))) == [admitted(x="0"), admitted(a="123")]


# --- other policies, pod scope ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["none", "best-effort"])
@pytest.mark.parametrize("scope", ["container", "pod"])
def test_other_policies_turn_nobody_away_and_take_nothing(policy: str, scope: str) -> None:
    asked = pod(container("a", 60), init=[container("i", 60)])
    assert run(node(zone(0, "4"), policy=policy, scope=scope), asked, asked) == [admitted(i="", a="")] * 2


def test_pod_scope_aligns_the_pod_as_one() -> None:
    found = node(zone(0, "4"), zone(1, "5"), scope="pod")
    assert run(found, pod(container("a", 3), container("b", 2))) == [admitted(a="1", b="1")]
    assert run(found, pod(container("a", 3), container("b", 3))) == [rejected()]
    assert run(node(*found["zones"]), pod(container("a", 3), container("b", 3))) == [admitted(a="0", b="1")]


def test_pod_scope_counts_the_larger_of_start_and_run() -> None:
    found = node(zone(0, "6"), scope="pod")
    assert run(found, pod(container("a", 3), container("b", 3), init=[container("i", 6)])) == [admitted(i="0", a="0", b="0")]
    assert run(found, pod(container("a", 1), init=[sidecar("s", 1), container("i", 6)])) == [rejected()]
    assert run(found, pod(container("a", 1), init=[container("i", 6), sidecar("s", 1)])) == [admitted(i="0", s="0", a="0")]
    assert run(found, pod(container("a", 6), init=[sidecar("s", 1)])) == [rejected()]


def test_pod_scope_keeps_the_effective_request() -> None:
    found = node(zone(0, "6"), scope="pod")
    assert run(found, pod(container("a", 1), init=[container("i", 6)]), pod(container("b", 1))) == [admitted(i="0", a="0"), rejected()]


def test_pod_scope_leaves_fractions_of_cpus_out() -> None:
    found = node(zone(0, "2", "2Gi"), scope="pod")
    assert run(found, pod(container("a", 2), container("b", "500m"))) == [admitted(a="0", b="0")]


def test_pod_scope_restricted() -> None:
    found = node(zone(0, "4"), zone(1, "4"), zone(2, "4"), policy="restricted", scope="pod")
    wide = pod(container("a", 3), container("b", 3))
    assert run(found, wide, pod(container("c", 4)), wide) == [admitted(a="01", b="01"), admitted(c="2"), rejected()]


# --- the topology as it is written --------------------------------------------------------------------------------------


def test_only_leaves_of_pools_are_zones() -> None:
    pools = [
        {"name": "NUMA node #1", "type": "NUMA Node", "parent": "socket #0", "resources": [{"name": "cpu", "capacity": "4"}]},
        {"name": "socket #0", "type": "socket", "parent": "root", "resources": [{"name": "cpu", "capacity": "8"}]},
        {"name": "NUMA node #0", "type": "NUMA Node", "parent": "socket #0", "resources": [{"name": "cpu", "capacity": "4"}]},
        {"name": "root", "type": "virtual node", "resources": [{"name": "cpu", "capacity": "8"}]},
    ]
    asked = pod({"name": "a", "resources": {"requests": {"cpu": 5}}})
    guaranteed = pod(container("a", 4, "0"), init=[])
    assert run(node(*pools), asked) == [admitted(a="")]
    assert run(node(*pools, policy="restricted"), guaranteed) == [admitted(a="")]  # no memory: not Guaranteed
    memory = [{"name": "memory", "capacity": "4Gi"}]
    listed = [{**z, "resources": [*z["resources"], *memory]} for z in pools]
    assert run(node(*listed), pod(container("a", 4)), pod(container("b", 4)), pod(container("c", 1))) == [
        Outcome("admitted", {"a": ("NUMA node #0",)}),
        Outcome("admitted", {"b": ("NUMA node #1",)}),
        rejected("c"),
    ]


def test_attributes_count_more_than_the_deprecated_field() -> None:
    assert manager({"zones": []}) == ("none", "container")
    assert manager({"topologyPolicies": ["RestrictedPodLevel"]}) == ("restricted", "pod")
    both = {"topologyPolicies": ["RestrictedPodLevel"], "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}]}
    assert manager(both) == ("single-numa-node", "pod")


# --- the random clusters ------------------------------------------------------------------------------------------------


def of(kind: str, seed: int) -> list[Object]:
    return [obj for obj in cluster(seed) if obj["kind"] == kind]


def pending(seed: int) -> list[Object]:
    return [obj for obj in of("Pod", seed) if obj["status"]["phase"] == "Pending"]


def nothing_left(left: dict[str, int], request: dict[str, int]) -> bool:
    return any(left.get(name, 0) < amount for name, amount in request.items())


@cache
def placed(seed: int, *, tries_zones: bool) -> tuple[int, int, int]:
    """First fit by node: pods turned away by a kubelet, admitted, and never sent to a node.

    With ``tries_zones`` a pod goes on to the next node if the kubelet would turn it away.
    """
    snapshot = from_objects(cluster(seed))
    left = {n.metadata.name or "": pod_requests.allocatable(n.status.allocatable if n.status else None) for n in snapshot.nodes}
    for running in snapshot.pods:
        if running.spec.nodeName:
            for name, amount in pod_requests.pod_request(running, GATES).items():
                left[running.spec.nodeName][name] -= amount
    topologies = {obj["metadata"]["name"]: obj for obj in of("NodeResourceTopology", seed)}
    allocatable = {obj["metadata"]["name"]: obj["status"]["allocatable"] for obj in of("Node", seed)}
    there: dict[str, list[Object]] = {name: [] for name in left}
    turned_away = unplaced = 0
    for raw in pending(seed):
        request = pod_requests.pod_request(msgspec.convert(raw, objects.Pod), GATES)
        for node_name in left:
            if nothing_left(left[node_name], request):
                continue
            ok = simulate(topologies[node_name], allocatable[node_name], [*there[node_name], raw])[-1].admitted
            if not ok and tries_zones:
                continue
            turned_away += not ok
            if ok:
                there[node_name].append(raw)
                for name, amount in request.items():
                    left[node_name][name] -= amount
            break
        else:
            unplaced += 1
    return turned_away, sum(map(len, there.values())), unplaced


def test_clusters_are_valid_input_and_repeat() -> None:
    for seed in SEEDS:
        assert cluster(seed) == cluster(seed)
        snapshot = from_objects(cluster(seed))
        assert 1 <= len(snapshot.nodes) == len(snapshot.node_topologies) <= 4
        assert 3 <= len(pending(seed)) <= 14
        assert not snapshot.warnings


def test_clusters_describe_2_to_8_zones_whose_sum_the_node_has() -> None:
    for seed in SEEDS:
        snapshot = from_objects(cluster(seed))
        for found in snapshot.nodes:
            tree = node_topology.tree(snapshot.node_topologies[found.metadata.name or ""])
            assert tree is not None
            assert 2 <= len(tree.zones) <= 8
            has = pod_requests.allocatable(found.status.allocatable if found.status else None)
            for name in {name for zone in tree.capacity for name in zone}:
                assert sum(zone[name] for zone in tree.capacity) <= has[name]
                assert all(left[name] <= all_[name] for left, all_ in zip(tree.available, tree.capacity, strict=True))


def test_clusters_cover_policies_dialects_and_kinds_of_pods() -> None:
    policies: Counter[str] = Counter()
    scopes: Counter[str] = Counter()
    types: Counter[str] = Counter()
    features: Counter[str] = Counter()
    for seed in SEEDS:
        for found in of("NodeResourceTopology", seed):
            policy, scope = manager(found)
            policies[policy] += 1
            scopes[scope] += 1
            types.update({z["type"] for z in found["zones"]})
        for raw in of("Pod", seed):
            init = raw["spec"].get("initContainers") or []
            features["running"] += raw["status"]["phase"] == "Running"
            features["sidecar"] += any(c.get("restartPolicy") == "Always" for c in init)
            features["init"] += any(c.get("restartPolicy") != "Always" for c in init)
            for c in raw["spec"]["containers"]:
                asked = c["resources"]["requests"]
                features["fraction"] += asked["cpu"].endswith("m")
                features["burstable"] += "limits" not in c["resources"]
                features["listed device"] += NIC in asked
                features["unlisted device"] += TPU in asked
    total = sum(policies.values())
    assert policies["single-numa-node"] + policies["restricted"] > 0.7 * total
    assert min(policies[p] for p in node_topology.POLICIES) >= 10
    assert min(scopes.values()) >= 50
    assert min(types[t] for t in ("Node", "numa node", "socket", "die", "virtual node")) >= 10
    assert len(features) == 7
    assert min(features.values()) >= 10


def test_restricted_nodes_do_get_pods_over_several_zones() -> None:
    wide = 0
    for seed in SEEDS:
        allocatable = {obj["metadata"]["name"]: obj["status"]["allocatable"] for obj in of("Node", seed)}
        for found in of("NodeResourceTopology", seed):
            outcomes = simulate(found, allocatable[found["metadata"]["name"]], pending(seed))
            wide += any(len(zones) > 1 for outcome in outcomes for zones in outcome.zones.values())
    assert wide >= 30


def test_zones_and_policies_are_read_as_the_product_reads_them() -> None:
    for seed in SEEDS:
        snapshot = from_objects(cluster(seed))
        for raw in of("NodeResourceTopology", seed):
            tree = node_topology.tree(snapshot.node_topologies[raw["metadata"]["name"]])
            assert tree is not None
            assert (tree.policy, tree.scope) == manager(raw)
            # Pods of one CPU fill the zones in the order of the simulation.
            if tree.policy == "single-numa-node":
                one = [pod(container("c", 1, "1Mi")) for _ in range(sum(zone["cpu"] // 1000 for zone in tree.available))]
                got = [outcome.zones["c"][0] for outcome in simulate(raw, ALLOCATABLE, one)]
                assert got == [name for name, zone in zip(tree.zones, tree.available, strict=True) for _ in range(zone["cpu"] // 1000)]


@pytest.mark.full
def test_a_placement_by_node_is_turned_away_in_a_good_share_of_clusters() -> None:
    bad = [seed for seed in SEEDS if placed(seed, tries_zones=False)[0]]
    assert 0.4 * len(SEEDS) <= len(bad) <= 0.95 * len(SEEDS)


@pytest.mark.full
def test_a_placement_that_looks_at_zones_does_better() -> None:
    naive = [placed(seed, tries_zones=False) for seed in SEEDS]
    aware = [placed(seed, tries_zones=True) for seed in SEEDS]
    assert all(turned_away == 0 for turned_away, _, _ in aware)
    assert sum(n for _, n, _ in aware) > 1.05 * sum(n for _, n, _ in naive)
