"""The requests of pods from NUMA zones: by QoS class, scope and kind of container."""

from __future__ import annotations

from typing import Any

import msgspec

from kubestow.models.kube import objects as kube_objects
from kubestow.models.kube import pod_requests, topology_objects
from kubestow.models.numa import alignment, node_topology
from kubestow.models.numa.alignment import AlignedRequest
from kubestow.models.numa.containers import INIT, ZoneAsk
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.numa import zone_pools
from tests.numa_clusters import cluster
from tests.topology_manager import Outcome, simulate

Object = dict[str, Any]
GIB = 2**30
NIC = "example.com/nic"


def container(name: str, *, limits: bool = True, always: bool = False, **requested: str | int) -> Object:
    """Dashes in resource names are written as underscores."""
    resources = {name.replace("_", "-"): amount for name, amount in requested.items()}
    found: Object = {"name": name, "resources": {"requests": resources, **({"limits": resources} if limits else {})}}
    return found | ({"restartPolicy": "Always"} if always else {})


def asks(*containers: Object, init: list[Object] | None = None, scope: str = "container", **spec: Any) -> tuple[AlignedRequest, ...]:
    found = {"metadata": {"name": "p"}, "spec": {"containers": list(containers), "initContainers": init, **spec}}
    return alignment.asks(msgspec.convert(found, kube_objects.Pod), scope)


def test_guaranteed_pods_ask_for_cpu_memory_and_huge_pages() -> None:
    found = asks(container("a", cpu=2, memory="1Gi", hugepages_2Mi="64Mi"))
    assert found == (AlignedRequest("a", (("cpu", 2000), ("hugepages-2Mi", 64 * 2**20), ("memory", GIB)), "app"),)


def test_a_fraction_of_a_cpu_is_not_exclusive() -> None:
    assert asks(container("a", cpu="1500m", memory="1Gi"), container("b", cpu="2000m", memory="1Gi")) == (
        AlignedRequest("a", (("memory", GIB),), "app"),
        AlignedRequest("b", (("cpu", 2000), ("memory", GIB)), "app"),
    )


def test_other_pods_ask_for_devices_only() -> None:
    found = asks({"name": "a", "resources": {"requests": {"cpu": 2, NIC: 3}, "limits": {NIC: 3}}}, {"name": "b"})
    assert found == (AlignedRequest("a", ((NIC, 3),), "app"),)
    assert asks({"name": "a", "resources": {"requests": {"cpu": 2, "memory": "1Gi", "hugepages-2Mi": "2Mi"}}}) == ()
    assert asks({"name": "a"}) == ()


def test_one_container_without_limits_makes_the_whole_pod_burstable() -> None:
    assert asks(container("a", cpu=2, memory="1Gi"), container("b", limits=False, cpu=1, memory="1Gi")) == ()


def test_zero_requests_and_names_the_scheduler_ignores_are_left_out() -> None:
    found = asks({"name": "a", "resources": {"requests": {NIC: 0, "example.com/gpu": "1", "requests.example.com/x": 1, "foo": 2}}})
    assert found == (AlignedRequest("a", (("example.com/gpu", 1),), "app"),)


def test_container_scope_keeps_the_order_of_admission() -> None:
    init = [container("i1", cpu=4, memory="1Gi"), container("s", always=True, cpu=1, memory="1Gi"), container("i2", cpu=3, memory="1Gi")]
    found = asks(container("b", cpu=2, memory="1Gi"), container("a", cpu=1, memory="1Gi"), init=init)
    assert [(ask.name, ask.kind, dict(ask.amounts)["cpu"]) for ask in found] == [
        ("i1", "init", 4000),
        ("s", "sidecar", 1000),
        ("i2", "init", 3000),
        ("b", "app", 2000),
        ("a", "app", 1000),
    ]


def test_pod_scope_asks_for_the_larger_of_start_and_run() -> None:
    init = [
        container("early", cpu=6, memory="1Gi"),  # before the sidecar: 6
        container("s", always=True, cpu=1, memory="2Gi"),
        container("late", cpu=6, memory="1Gi"),  # with the sidecar: 7
    ]
    apps = [container("a", cpu=2, memory="4Gi"), container("b", cpu=3, memory="4Gi")]  # with the sidecar: 6, 10 Gi
    assert asks(*apps, init=init, scope="pod") == (AlignedRequest("", (("cpu", 7000), ("memory", 10 * GIB)), "pod"),)


def test_pod_scope_sums_only_whole_cpus() -> None:
    init = [container("i", cpu="9500m", memory="1Gi")]
    apps = [container("a", cpu=2, memory="1Gi"), container("b", cpu="500m", memory="1Gi"), container("c", cpu="500m", memory="1Gi")]
    assert asks(*apps, init=init, scope="pod") == (AlignedRequest("", (("cpu", 2000), ("memory", 3 * GIB)), "pod"),)


def test_pod_scope_of_a_pod_that_asks_for_nothing() -> None:
    assert asks({"name": "a", "resources": {"requests": {"cpu": 1}}}, scope="pod") == ()


def test_overhead_is_not_aligned() -> None:
    assert asks(container("a", cpu=2, memory="1Gi"), scope="pod", overhead={"cpu": 1, "memory": "1Gi"}) == (
        AlignedRequest("", (("cpu", 2000), ("memory", GIB)), "pod"),
    )


def test_with_pod_level_resources_only_devices_are_aligned() -> None:
    resources = {"requests": {"cpu": 4, "memory": "4Gi"}, "limits": {"cpu": 4, "memory": "4Gi"}}
    app = {"name": "a", "resources": {"requests": {"cpu": 2, "memory": "1Gi", NIC: 1}, "limits": {"cpu": 2, "memory": "1Gi", NIC: 1}}}
    assert asks(app, resources=resources) == (AlignedRequest("a", ((NIC, 1),), "app"),)
    assert asks(app, resources=resources, scope="pod") == (AlignedRequest("", ((NIC, 1),), "pod"),)


# --- which of it zones decide -------------------------------------------------------------------------------------------


def tree() -> node_topology.NumaTree:
    zones = [
        {"name": "node-0", "type": "Node", "resources": [{"name": "cpu", "capacity": "4"}, {"name": NIC, "capacity": "0"}]},
        {"name": "node-1", "type": "Node", "resources": [{"name": "cpu", "capacity": "4"}, {"name": "example.com/gpu", "capacity": "1"}]},
    ]
    found = node_topology.tree(msgspec.convert({"metadata": {"name": "n"}, "zones": zones}, topology_objects.NodeResourceTopology))
    assert found is not None
    return found


def test_aligned_is_what_some_zone_lists_even_with_nothing_left() -> None:
    amounts = [("cpu", 1000), ("example.com/fpga", 1), ("example.com/gpu", 1), (NIC, 1), ("memory", GIB)]
    assert alignment.aligned(tree(), amounts) == (("cpu", 1000), ("example.com/gpu", 1), (NIC, 1))


def test_missing_is_what_must_be_listed() -> None:
    amounts = [(name, 1) for name in ("cpu", "ephemeral-storage", "example.com/fpga", NIC, "hugepages-2Mi", "kubernetes.io/x", "memory")]
    has = dict.fromkeys([*(name for name, _ in amounts), "storage"], 10)
    assert alignment.missing(tree(), amounts, has) == ["hugepages-2Mi", "kubernetes.io/x", "memory"]
    assert alignment.missing(tree(), [("storage", 1)], has) == []


def test_missing_is_what_the_node_does_not_have_either() -> None:
    amounts = [("ephemeral-storage", 1), ("example.com/fpga", 1), (NIC, 1), ("storage", 1)]
    assert alignment.missing(tree(), amounts, {"cpu": 8000}) == ["ephemeral-storage", "example.com/fpga", "storage"]


# --- against the simulated kubelet --------------------------------------------------------------------------------------


def first_fit(
    found: node_topology.NumaTree, allocatable: dict[str, int], left: list[dict[str, int]], pod: kube_objects.Pod
) -> dict[str, tuple[str, ...]] | str:
    """Zones by name of the ask under single-numa-node, or the name of the ask that is turned away; ``left`` changes only on success."""
    wanted: list[ZoneAsk] = []
    names: list[str] = []
    got: dict[str, tuple[str, ...]] = {}
    for ask in alignment.asks(pod, found.scope):
        amounts = alignment.aligned(found, ask.amounts)
        if alignment.missing(found, ask.amounts, allocatable):
            return ask.name
        got[ask.name] = ()
        if amounts:
            wanted.append(ZoneAsk(INIT if ask.kind == "init" else 0, amounts))
            names.append(ask.name)
            if zone_pools.first_fit(found, [dict(zone) for zone in left], wanted) is None:
                return ask.name
    pools = zone_pools.first_fit(found, left, wanted) or []
    return got | {name: (found.zones[pool.bit_length() - 1],) for name, pool in zip(names, pools, strict=True)}


def test_admission_by_asks_is_that_of_the_simulated_kubelet() -> None:
    compared = turned_away = 0
    for seed in range(200):
        objects = cluster(seed)
        snapshot = from_objects(objects)
        pending = [pod for pod in snapshot.pods if pod.spec.nodeName is None]
        raw_pods = [obj for obj in objects if obj["kind"] == "Pod" and "nodeName" not in obj["spec"]]
        for node in snapshot.nodes:
            name = node.metadata.name or ""
            found = node_topology.tree(snapshot.node_topologies[name])
            assert found is not None
            if found.policy != "single-numa-node":
                continue
            raw = next(obj for obj in objects if obj["kind"] == "NodeResourceTopology" and obj["metadata"]["name"] == name)
            given = (node.status.allocatable if node.status else None) or {}
            remaining = [dict(zone) for zone in found.available]
            for pod, outcome in zip(pending, simulate(raw, {n: str(q) for n, q in given.items()}, raw_pods), strict=True):
                got = first_fit(found, pod_requests.allocatable(given), remaining, pod)
                if isinstance(got, str):
                    assert outcome == Outcome("TopologyAffinityError", container=got)
                    turned_away += 1
                elif found.scope == "pod":
                    assert set(outcome.zones.values()) == {got.get("", ())}
                else:
                    assert {c: zones for c, zones in outcome.zones.items() if zones} == {c: zones for c, zones in got.items() if zones}
                compared += 1
    assert compared > 1000
    assert turned_away > 200
