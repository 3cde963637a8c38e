"""Init containers bind a pod to zones: the search and the checker against hints that are generated CPU by CPU and device by device.

The reading here follows pkg/kubelet/cm: generateCPUTopologyHints, allocateCPUs and updateCPUsToReuse of cpumanager/policy_static.go,
generateDeviceTopologyHints and devicesToAllocate of devicemanager. Under ``restricted`` the number of zones is that of the
specification: the fewest that could hold the whole request.
"""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import pytest

from kubestow.checker.objective import topology_manager as checked
from kubestow.checker.objective.kubelet import Kubelet
from kubestow.checker.placement import verify
from kubestow.models.kube import objects
from kubestow.models.numa import alignment, node_topology
from kubestow.models.numa.containers import INIT, ZoneAsk
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.numa import zone_pools
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place

Object = dict[str, Any]
Id = tuple[int, int]  # zone, number in it
NIC, GPU = "example.com/nic", "example.com/gpu"


def container(name: str, cpu: int | str = 0, *, guaranteed: bool = True, sidecar: bool = False, **devices: int) -> Object:
    requests: Object = {"cpu": str(cpu), "memory": "1Gi"} if guaranteed else {}
    requests |= {f"example.com/{key}": str(number) for key, number in devices.items() if number}
    found: Object = {"name": name, "image": "i", "resources": {"requests": requests, "limits": requests}}
    return found | ({"restartPolicy": "Always"} if sidecar else {})


def pod(name: str, *containers: Object, init: tuple[Object, ...] = ()) -> Object:
    spec = {"containers": list(containers), **({"initContainers": list(init)} if init else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def node(
    available: list[dict[str, int]], total: list[dict[str, int]], policy: str = "single-numa-node", scope: str = "container"
) -> list[Object]:
    """``available``, ``total``: by zone; memory is plenty unless it is named."""
    names = sorted({name for zone in total for name in zone})
    allocatable = {name: str(sum(zone.get(name, 0) for zone in total)) for name in names} | {"memory": "900Gi", "pods": "110"}
    zones = [
        {
            "name": f"node-{i}", "type": "Node",
            "resources": [
                {"name": "memory", "capacity": "200Gi", "available": "200Gi"},
                *({"name": n, "capacity": str(zone[n]), "available": str(available[i].get(n, zone[n]))} for n in names if n in zone),
            ],
        }
        for i, zone in enumerate(total)
    ]  # fmt: skip
    attributes = [{"name": "topologyManagerPolicy", "value": policy}, {"name": "topologyManagerScope", "value": scope}]
    return [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": allocatable}},
        {
            "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": {"name": "n"},
            "attributes": attributes, "zones": zones,
        },
    ]  # fmt: skip


# --- the second reading -------------------------------------------------------------------------------------------------------------------


class Reading:
    """The kubelet of one node. ``free``: unused capacity by resource; ``all``: total capacity."""

    def __init__(self, available: list[dict[str, int]], total: list[dict[str, int]], policy: str) -> None:
        self.zones, self.policy, self.total = len(total), policy, total
        names = {name for zone in total for name in zone}
        self.free = {n: {(z, i) for z, zone in enumerate(total) for i in range(available[z].get(n, zone.get(n, 0)))} for n in names}

    def arrive(self, raw: Object) -> dict[str, int] | None:
        """Return by container the zones that it gets as a bitmask, None if the pod is turned away."""
        before = {name: set(ids) for name, ids in self.free.items()}
        reusable: dict[str, set[Id]] = {name: set() for name in self.free}
        got: dict[str, int] = {}
        init = raw["spec"].get("initContainers", [])
        for each in [*init, *raw["spec"]["containers"]]:
            requested = self._asked(each, raw)
            mask = self._affinity(requested, reusable) if requested else 0
            if mask is None:
                self.free = before
                return None
            for name, number in requested.items():
                self._allocate(name, number, mask, reusable[name], is_init=each in init and "restartPolicy" not in each)
            if requested:
                got[each["name"]] = mask
        for name, ids in reusable.items():
            self.free[name] |= ids
        return got

    def _asked(self, each: Object, raw: Object) -> dict[str, int]:
        every = [*raw["spec"].get("initContainers", []), *raw["spec"]["containers"]]
        guaranteed = all("cpu" in one["resources"]["limits"] for one in every)
        found = {n: int(q) for n, q in each["resources"]["limits"].items() if n in (NIC, GPU)}
        cpu = each["resources"]["limits"].get("cpu", "")
        return found | ({"cpu": int(cpu)} if guaranteed and cpu.isdigit() else {})

    def _affinity(self, requested: dict[str, int], reusable: dict[str, set[Id]]) -> int | None:
        masks = [sum(1 << z for z in some) for size in range(1, self.zones + 1) for some in combinations(range(self.zones), size)]

        def holds(mask: int) -> bool:
            return all(sum(zone.get(n, 0) for z, zone in enumerate(self.total) if mask >> z & 1) >= k for n, k in requested.items())

        fewest = 1 if self.policy == "single-numa-node" else min((m.bit_count() for m in masks if holds(m)), default=0)

        def hinted(mask: int, name: str) -> bool:
            if any(not mask >> z & 1 for z, _ in reusable[name]):
                return False
            return sum(mask >> z & 1 for z, _ in self.free[name] | reusable[name]) >= requested[name]

        fitting = [mask for mask in masks if mask.bit_count() == fewest and all(hinted(mask, name) for name in requested)]
        return min(fitting, default=None)

    def _allocate(self, name: str, number: int, mask: int, reusable: set[Id], *, is_init: bool) -> None:
        there = {one for one in self.free[name] | reusable if mask >> one[0] & 1}
        order = (lambda one: one) if name == "cpu" else (lambda one: (one not in reusable, one))
        allocated = set(sorted(there, key=order)[:number])
        self.free[name] -= allocated
        if is_init:
            reusable |= allocated
        else:
            reusable -= allocated


# --- random pods --------------------------------------------------------------------------------------------------------------------------


def draw(rng: random.Random) -> tuple[list[dict[str, int]], list[dict[str, int]], str, list[Object]]:
    zones, size = rng.choice((1, 2, 2, 3, 4)), rng.choice((4, 6, 8))
    total = [{"cpu": size, NIC: rng.choice((0, 1, 2, 4)), GPU: rng.choice((0, 2, 4))} for _ in range(zones)]
    available = [{name: rng.randint(0, number) if rng.random() < 0.5 else number for name, number in zone.items()} for zone in total]

    def one(name: str, guaranteed: bool, *, sidecar: bool = False) -> Object:
        cpu: int | str = rng.choice((1, 1, 2, 3, size - 1, size, "500m"))
        nics, gpus = (rng.choice((0, 0, 0, 1, 2)) for _ in range(2))
        return container(name, cpu, guaranteed=guaranteed, sidecar=sidecar, nic=nics, gpu=gpus)

    pods = []
    for number in range(4):
        guaranteed = rng.random() < 0.8
        init = tuple(one(f"i{k}", guaranteed, sidecar=rng.random() < 0.25) for k in range(rng.choice((0, 1, 1, 2, 3))))
        pods.append(pod(f"p{number}", *(one(f"a{k}", guaranteed) for k in range(rng.choice((1, 1, 2)))), init=init))
    return available, total, rng.choice(("single-numa-node", "single-numa-node", "restricted")), pods


def compare(seed: int) -> tuple[int, int, int]:
    """Compare four pods. Return numbers of pods that are let in, turned away, and turned away for their init containers alone."""
    available, total, policy, raw = draw(random.Random(seed))
    made = node(available, total, policy)
    snapshot = from_objects([*made, *raw])
    tree = node_topology.tree(snapshot.node_topologies["n"])
    machine = checked.read(snapshot.nodes[0], snapshot.node_topologies["n"])
    assert tree is not None
    assert machine is not None
    reading, kubelet, free = Reading(available, total, policy), Kubelet(machine), [dict(zone) for zone in tree.available]
    admitted = bound = 0
    for given, parsed in zip(raw, snapshot.pods, strict=True):
        without = {"spec": {"containers": given["spec"]["containers"]}}
        alone = Reading([], [], policy)
        alone.__dict__ |= {**reading.__dict__, "free": {name: set(ids) for name, ids in reading.free.items()}}
        expected = reading.arrive(given)
        admitted += expected is not None
        bound += expected is None and alone.arrive(without) is not None
        asks = [each for each in alignment.asks(parsed, "container") if {n for n, _ in each.amounts} != {"memory"}]
        wanted = [ZoneAsk(INIT if each.kind == "init" else i, alignment.aligned(tree, each.amounts)) for i, each in enumerate(asks)]
        got = zone_pools.first_fit(tree, free, wanted)
        assert (got is None) == (expected is None), seed
        if got is not None and expected is not None:
            assert {each.name: mask for each, mask in zip(asks, got, strict=True)} == expected, seed
        assert (kubelet.admit(checked.asks(parsed, "container")) is None) == (expected is not None), seed
    assert [[zone.get(n, 0) for n in (NIC, GPU)] for zone in free] == [
        [sum(z == i for z, _ in reading.free[n]) for n in (NIC, GPU)] for i in range(len(total))
    ], seed
    return admitted, len(raw) - admitted, bound


def test_a_few_pods_are_admitted_as_by_hints_of_single_cpus_and_devices() -> None:
    counts = [compare(seed) for seed in range(60)]
    assert all(sum(column) > 5 for column in zip(*counts, strict=True))


@pytest.mark.slow
def test_pods_are_admitted_as_by_hints_of_single_cpus_and_devices() -> None:
    counts = [compare(seed) for seed in range(60, 2060)]
    assert all(sum(column) > 100 for column in zip(*counts, strict=True))


# --- from end to end ----------------------------------------------------------------------------------------------------------------------

WIDE = [{"cpu": 32}, {"cpu": 32}]


def placed(made: list[Object], *pods: Object) -> tuple[list[str], Snapshot]:
    """Return the pods that are placed; the checker agrees."""
    snapshot = from_objects([*made, *pods])
    placement = place(snapshot, Options(time_limit=10, workers=1))
    assert verify(snapshot, placement) == []
    assert placement.status in ("optimal", "infeasible")
    return sorted(entry.pod.removeprefix("default/") for entry in placement.assignments), snapshot


def centos(name: str, app: int = 26, init: int | str = 1, *, sidecar: bool = False) -> Object:
    return pod(name, container("app", app), init=(container("init", init, sidecar=sidecar),))


def test_the_init_container_takes_the_first_zone_and_the_pod_with_it() -> None:
    part = node([{"cpu": 6}, {"cpu": 32}], WIDE)
    assert placed(part, centos("a"))[0] == []
    assert placed(node([{"cpu": 6}, {"cpu": 32}], WIDE, "restricted"), centos("a"))[0] == []
    assert placed(node([{"cpu": 6}, {"cpu": 32}], WIDE, scope="pod"), centos("a"))[0] == ["a"]
    assert placed(node([{"cpu": 0}, {"cpu": 32}], WIDE), centos("a"))[0] == ["a"]
    assert placed(part, centos("a", init="500m"))[0] == ["a"]
    assert placed(part, centos("a", sidecar=True))[0] == ["a"]
    assert len(placed(node(WIDE, WIDE), centos("a"), centos("b"))[0]) == 1


def test_a_pod_that_fills_the_first_zone_lets_the_next_one_in() -> None:
    assert placed(node([{"cpu": 6}, {"cpu": 32}], WIDE), centos("a"), pod("filler", container("c", 6)))[0] == ["a", "filler"]


def test_a_large_init_container_draws_the_app_container_to_its_zone() -> None:
    snapshot = from_objects([*node([{"cpu": 6}, {"cpu": 32}], WIDE), centos("a", app=2, init=26)])
    [entry] = place(snapshot, Options(time_limit=10, workers=1)).assignments
    assert [listed.zones for listed in entry.containers if listed.name == "app"] == [["node-1"]]


def test_devices_of_init_containers_bind_as_well_until_an_app_container_has_them() -> None:
    total = [{"cpu": 8, NIC: 1}, {"cpu": 8, NIC: 4}]
    first = pod("a", container("app", 1, nic=2), init=(container("init", 1, nic=1),))
    assert placed(node(total, total), first)[0] == []
    both = pod("a", container("app", 1, nic=1), container("more", 1, nic=4), init=(container("init", 1, nic=1),))
    assert placed(node(total, total), both)[0] == ["a"]


def test_the_checker_says_which_zone_the_init_containers_were_in() -> None:
    snapshot = from_objects([*node([{"cpu": 6}, {"cpu": 32}], WIDE), centos("a")])
    machine = checked.read(snapshot.nodes[0], snapshot.node_topologies["n"])
    assert machine is not None
    waiting: objects.Pod = snapshot.pods[0]
    assert Kubelet(machine).admit(checked.asks(waiting, "container")) == (
        "container app asks for cpu 26, memory 1073741824: no NUMA zone has that much with node-0, where its init containers were "
        "(single-numa-node)"
    )


# --- words --------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("available", "total", "policy", "requests", "why"),
    [
        ([{"cpu": 2}] * 3, [{"cpu": 6}] * 3, "restricted", container("app", 5), "cpu: 2, 2 and 2 free of 6; 5 asked"),
        (
            [{"cpu": 2}, {"cpu": 4}],
            [{"cpu": 6}, {"cpu": 8}],
            "single-numa-node",
            container("app", 5),
            "cpu: 2 and 4 free of 6 and 8; 5 asked",
        ),
        ([{"cpu": 8, NIC: 1}], [{"cpu": 8, NIC: 4}], "single-numa-node", container("app", 5, nic=2), f"{NIC}: 1 free of 4; 2 asked"),
    ],
)
def test_reasons_and_causes_give_amounts(
    available: list[dict[str, int]], total: list[dict[str, int]], policy: str, requests: Object, why: str
) -> None:
    placement = place(from_objects([*node(available, total, policy), pod("p", requests)]), Options(time_limit=10, workers=1))
    [reason] = placement.unplaced[0].reasons
    if reason.rule == "NodeResourceTopologyMatch":
        assert reason.message == f"no NUMA zones with room under the Topology Manager policy {policy} ({why})"
    assert [fact.message.partition("(on n ")[2] for cause in placement.causes for fact in cause.facts] == [f"{why})"]


def test_a_tie_is_part_of_reasons_and_causes() -> None:
    placement = place(from_objects([*node([{"cpu": 6}, {"cpu": 32}], WIDE), centos("a")]), Options(time_limit=10, workers=1))
    why = "(cpu: 6 free of 32 in node-0, where its init containers are; 26 asked)"
    [reason] = placement.unplaced[0].reasons
    assert reason.message.endswith(why)
    [fact] = [fact for cause in placement.causes for fact in cause.facts]
    assert fact.message.endswith(f"(on n {why[1:]}")
