"""L3 caches of NUMA zones: a level of closeness, with the memory of the zone shared by its caches."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

from kubestow.checker.objective import topology_manager
from kubestow.checker.placement import verify
from kubestow.models.cluster import unmodelled
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.policy import DEFAULT, Closeness, Policy
from kubestow.models.kube.feature_gates import DEFAULT as GATES
from kubestow.models.kube.objects import Pod
from kubestow.models.kube.pod_requests import pod_request
from kubestow.models.numa.node_topology import NumaTree, tree
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.container_affinity import matrix
from tests.objects import Object, node, pod
from tests.tiers import sampled

POINTS = (DEFAULT.closeness.sameNode, DEFAULT.closeness.sameSocket, DEFAULT.closeness.sameZone, DEFAULT.closeness.cache)


def zone(name: str, kind: str, parent: str | None, cpu: int | None = None, memory: int = 8) -> Object:
    found: Object = {"name": name, "type": kind, **({"parent": parent} if parent else {})}
    listed = {"cpu": str(cpu), "memory": f"{memory}Gi"} if cpu is not None else {}
    return {**found, "resources": [{"name": key, "capacity": each, "available": each} for key, each in listed.items()]}


def topology(*numa: tuple[int, Sequence[int]], attributes: Sequence[Object] = ()) -> Object:
    """A socket of NUMA zones; ``numa``: the memory of each zone in Gi, and the CPUs of each of its caches (one: no caches are listed)."""
    zones = [zone("socket #0", "socket", None)]
    for n, (memory, cpus) in enumerate(numa):
        zones.append(zone(f"NUMA node #{n}", "numa node", "socket #0", sum(cpus), memory))
        if len(cpus) > 1:
            above = f"NUMA node #{n}"
            zones += [zone(f"{above}/L3 cache #{i}", "L3 cache", above, each, memory) for i, each in enumerate(cpus)]
    found: Object = {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": {"name": "n1"}}
    return {**found, "zones": zones, "attributes": list(attributes)}


def hinted(name: str, cpu: int, memory: int = 1, text: str = "") -> Object:
    result = pod(name, cpu=str(cpu), memory=f"{memory}Gi")
    result["metadata"]["annotations"] = {"resource-policy.nri.io/affinity": text} if text else {}
    return result


def to(name: str, weight: int = 1) -> str:
    scope = "scope: {operator: AlwaysTrue}"
    return f"c:\n- {{{scope}, match: {{key: pod/name, operator: Equals, values: [{name}]}}, weight: {weight}}}\n"


def solved(*objects: Any, policy: Policy = DEFAULT) -> tuple[Snapshot, Placement]:
    snapshot = from_objects([node("n1", cpu="64", memory="256Gi"), *objects])
    placement = place(snapshot, Options(time_limit=20, policy=policy))
    assert verify(snapshot, placement) == []
    return snapshot, placement


def soft(placement: Placement) -> int:
    (tier,) = [tier for tier in placement.objective if tier.tier == "soft"]
    assert tier.bound == tier.value
    return tier.value


def zones_of(placement: Placement) -> dict[str, list[str]]:
    return {each.pod.partition("/")[2]: each.containers[0].zones for each in placement.assignments if each.containers}


def read(obj: Object) -> NumaTree:
    snapshot = from_objects([node("n1"), obj])
    here = tree(snapshot.node_topologies["n1"])
    machine = topology_manager.read(snapshot.nodes[0], snapshot.node_topologies["n1"])
    assert here is not None
    assert machine is not None
    assert here.zones == machine.zones
    assert bool(here.numa) == bool(machine.around)
    return here


def test_caches_take_the_place_of_their_zone() -> None:
    here = read(topology((8, (4, 2)), (4, (6,))))
    assert here.zones == ("NUMA node #0/L3 cache #0", "NUMA node #0/L3 cache #1", "NUMA node #1")
    assert here.numa == (0, 0, 1)
    assert [each["cpu"] for each in here.available] == [4000, 2000, 6000]
    assert [here.lowest(1, 1), here.lowest(1, 2), here.lowest(1, 4), here.lowest(0, 1), here.lowest(4, 4)] == [3, 2, 1, 0, 3]


def test_under_a_policy_that_rejects_pods_zones_are_those_of_the_kubelet() -> None:
    strict = topology((8, (4, 2)), (4, (6,)), attributes=[{"name": "topologyManagerPolicy", "value": "single-numa-node"}])
    assert read(strict).zones == ("NUMA node #0", "NUMA node #1")
    snapshot = from_objects([node("n1"), strict, pod("p")])
    (result,) = unmodelled.find(snapshot, snapshot.pods)
    assert result.effect.startswith("zones of type L3 cache are not read")
    snapshot = from_objects([node("n1"), topology((8, (4, 2))), pod("p")])
    assert unmodelled.find(snapshot, snapshot.pods) == []


def test_one_cache_is_closer_than_one_zone() -> None:
    pair = hinted("a", 2, text=to("b")), hinted("b", 2)
    _, placement = solved(topology((8, (4, 4)), (8, (4, 4))), *pair)
    assert soft(placement) == 3
    assert zones_of(placement)["a"] == zones_of(placement)["b"]
    _, placement = solved(topology((8, (3, 3)), (8, (2, 1))), *pair)  # no cache has room for both
    assert soft(placement) == 2
    levels = Closeness(sameCache=9, sameZone=5, sameSocket=1)
    assert soft(solved(topology((8, (4, 4)), (8, (4, 4))), *pair, policy=Policy(closeness=levels))[1]) == 9


def test_caches_of_a_zone_share_its_memory() -> None:
    """Both zones have CPUs for both pods in one cache; memory for both has only the second."""
    pair = hinted("a", 2, 4, text=to("b")), hinted("b", 2, 4)
    _, placement = solved(topology((7, (4, 4)), (8, (4, 4))), *pair)
    assert soft(placement) == 3
    assert {name.partition("/")[0] for names in zones_of(placement).values() for name in names} == {"NUMA node #1"}
    apart = hinted("a", 2, 4, text=to("b", -1)), hinted("b", 2, 4)
    _, placement = solved(topology((7, (4, 4)), (7, (4, 4))), *apart)
    assert soft(placement) == -1  # two caches of one zone have not the memory for both
    _, placement = solved(topology((8, (4, 4)), (3, (4, 4))), *apart)
    assert soft(placement) == -2


def best(here: NumaTree, snapshot: Snapshot) -> int:
    """The most points of pods with one container each on one node, over all pools that the plugin could choose."""
    pods = snapshot.pods
    _, weights = matrix(pods)
    need = [(_asked(each, "cpu"), _asked(each, "memory")) for each in pods]
    count, whole = len(here.zones), (1 << len(here.zones)) - 1
    numa = [sum(1 << z for z in range(count) if here.numa[z] == n) for n in range(max(here.numa) + 1)]
    pools = list(dict.fromkeys([*(1 << z for z in range(count)), *numa, whole]))

    def holds(chosen: Sequence[int]) -> bool:
        """No set of caches lacks CPUs for those confined to it, and no set of NUMA zones memory. The node as a whole confines nobody."""
        confined = [(pool, *amounts) for pool, amounts in zip(chosen, need, strict=True) if pool != whole]
        for some in range(1, whole + 1):
            has = sum(here.available[z]["cpu"] for z in range(count) if some >> z & 1)
            if sum(cpu for pool, cpu, _ in confined if pool & some == pool) > has:
                return False
        for chosen_zones in range(1, 1 << len(numa)):
            some = sum(zones for n, zones in enumerate(numa) if chosen_zones >> n & 1)
            has = sum(here.available[numa[n].bit_length() - 1]["memory"] for n in range(len(numa)) if chosen_zones >> n & 1)
            if sum(memory for pool, _, memory in confined if pool & some == pool) > has:
                return False
        return True

    def tight(chosen: tuple[int, ...]) -> bool:
        for i, pool in enumerate(chosen):
            for other in pools:
                if other != pool and other & pool == other and holds((*chosen[:i], other, *chosen[i + 1 :])):
                    return False
        return True

    found = [
        sum(w * POINTS[here.lowest(chosen[i], chosen[j])] for (i, j), w in weights.items())
        for chosen in product(pools, repeat=len(pods))
        if holds(chosen) and tight(chosen)
    ]
    return max(found)


def _asked(each: Pod, resource: str) -> int:
    return pod_request(each, GATES)[resource]


@pytest.mark.parametrize("seed", sampled(range(24), every=8, full=2))
def test_the_best_choice_is_that_of_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    listed = [(rng.randint(2, 5), [rng.randint(1, 4) for _ in range(2)]) for _ in range(2)]
    names = ["a", "b", "c"]
    pods = [hinted(name, rng.randint(1, 3), rng.randint(1, 3), to(rng.choice(names), rng.choice([1, 2, -1, -3]))) for name in names]
    snapshot, placement = solved(topology(*((memory, cpus) for memory, cpus in listed)), *pods)
    here = tree(snapshot.node_topologies["n1"])
    assert here is not None
    assert soft(placement) == best(here, snapshot)
