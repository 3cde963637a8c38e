"""The checker's judgement of NUMA zones and container affinity: hand-written instances, and the simulated kubelet."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.checker.objective import kubelet, topology_manager
from kubestow.checker.objective.numa_zones import Zones, _Item, _Room, judge
from kubestow.checker.objective.topology_manager import Machine, MachineError
from kubestow.models.documents.placement import Assignment, ContainerZones
from kubestow.models.documents.policy import DEFAULT, Closeness, Multipliers, Policy, Topology, TopologyZone
from kubestow.models.kube import objects as kube_objects
from kubestow.models.kube import topology_objects
from kubestow.models.numa import alignment, node_topology
from kubestow.models.snapshot.snapshot import from_objects
from tests.container_affinity import matrix
from tests.models.numa.test_node_topology import pools as nri_pools
from tests.numa_clusters import cluster
from tests.objects import Object, node
from tests.topology_manager import simulate

GIB = 2**30
NIC = "example.com/nic"
SINGLE, RESTRICTED = "single-numa-node", "restricted"
PREFIX = "resource-policy.nri.io/"


def zone(number: int, cpu: str = "4", memory: str = "8Gi", *, socket: int = 0, left: str | None = None, **others: str) -> Object:
    """``others``: devices of example.com. ``left``: available cpu, if less than all."""
    amounts = {"cpu": cpu, "memory": memory, **{f"example.com/{name}": n for name, n in others.items()}}
    listed = [{"name": n, "capacity": q, "available": left if left and n == "cpu" else q} for n, q in amounts.items()]
    return {"name": f"node-{number}", "type": "Node", "parent": f"socket-{socket}", "resources": listed}


def nrt(*zones: Object, policy: str = "none", scope: str = "container", name: str = "n0") -> Object:
    attributes = [{"name": "topologyManagerPolicy", "value": policy}, {"name": "topologyManagerScope", "value": scope}]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": {"name": name},
        "attributes": attributes, "zones": list(zones),
    }  # fmt: skip


def two(**kinds: Any) -> Object:
    return nrt(zone(0), zone(1), **kinds)


def four(cpu: str = "4", **kinds: Any) -> Object:
    """Two sockets of two zones."""
    return nrt(*(zone(n, cpu, socket=n // 2) for n in range(4)), **kinds)


def container(name: str, cpu: str | None = "1", memory: str | None = "1Gi", *, limits: bool = False, **others: str) -> Object:
    asked = {n: q for n, q in (("cpu", cpu), ("memory", memory)) if q is not None}
    devices = {f"example.com/{n}": q for n, q in others.items()}
    return {"name": name, "image": "i", "resources": {"requests": asked | devices, "limits": (asked if limits else {}) | devices}}


def fixed_cpus(name: str, cpu: str = "1", memory: str = "1Gi", **others: str) -> Object:
    """A container of a Guaranteed pod."""
    return container(name, cpu, memory, limits=True, **others)


def pod(
    name: str, *containers: Object, init: Sequence[Object] = (), on: str | None = None, affinity: object = None, **others: Any
) -> Object:
    """``affinity``: the annotation, as text or to be written as JSON; ``others``: labels, namespace, anti, annotations."""
    annotations = dict(others.get("annotations", {}))
    for key, given_ in (("affinity", affinity), ("anti-affinity", others.get("anti"))):
        if given_ is not None:
            annotations[PREFIX + key] = given_ if isinstance(given_, str) else json.dumps(given_)
    metadata = {
        "name": name,
        "namespace": others.get("namespace", "default"),
        "labels": others.get("labels", {}),
        "annotations": annotations,
    }
    spec: Object = {"containers": list(containers) or [container("c")], "initContainers": list(init)}
    if on is not None:
        spec["nodeName"] = on
    phase = others.get("phase", "Running" if on else "Pending")
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": phase}}


def put(name: str, where: str = "n0", **zones: str) -> Assignment:
    """``a="02"``: container a gets node-0 and node-2."""
    listed = [ContainerZones(c, [f"node-{n}" for n in numbers]) for c, numbers in zones.items()]
    return Assignment(f"default/{name}", where, 1, containers=listed)


def judged(objects: Sequence[Object], *placed: Assignment, absent: Sequence[str] = (), policy: Policy = DEFAULT) -> Zones:
    nodes = [] if any(o["kind"] == "Node" for o in objects) else [node(n, cpu="64", memory="256Gi") for n in ("n0", "n1")]
    return judge(from_objects([*nodes, *objects]), placed, [f"default/{name}" for name in absent], policy)


def faults(objects: Sequence[Object], *placed: Assignment, **others: Any) -> list[tuple[str, str]]:
    """(pod, rule: why), all on n0."""
    found = judged(objects, *placed, **others).faults
    assert all(n == "n0" for _, n, _, _ in found)
    return [(key.removeprefix("default/"), f"{rule}: {why}") for key, _, rule, why in found]


def the_fault(objects: Sequence[Object], *placed: Assignment, **others: Any) -> tuple[str, str]:
    (found,) = faults(objects, *placed, **others)
    return found


def points(objects: Sequence[Object], *placed: Assignment, **others: Any) -> int:
    """The points of a placement without faults."""
    found = judged(objects, *placed, **others)
    assert found.faults == []
    return found.points


def to(*names: str, weight: int = 1, scope: bool = False) -> list[Object]:
    entries: list[Object] = [{"match": {"key": "name", "operator": "Equals", "values": [name]}, "weight": weight} for name in names]
    return [entry | ({"scope": {"operator": "AlwaysTrue"}} if scope else {}) for entry in entries]


AB = pod("p", container("a"), container("b"), affinity={"a": to("b", weight=3)})


# --- points: where containers are ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [("0", "0", 6), ("0", "1", 3), ("01", "01", 3), ("0", "2", 0), ("0", "0123", 0), ("0", "", 0), ("", "", 0)],
)
def test_closeness_by_zone_socket_and_node(a: str, b: str, expected: int) -> None:
    # Wider pools than needed are faults of their own, the points count all the same.
    assert judged([four(), AB], put("p", a=a, b=b)).points == expected


def test_a_container_that_is_not_listed_is_somewhere_on_the_node() -> None:
    levels = Policy(closeness=Closeness(sameZone=9, sameSocket=5, sameNode=2))
    assert points([four(), AB], put("p", a="0"), policy=levels) == 3 * 2
    assert points([four(), AB], put("p"), policy=levels) == 3 * 2


def test_without_zones_everything_on_a_node_is_as_close_as_can_be() -> None:
    assert points([AB], put("p")) == 6
    assert points([nrt(zone(0)), AB], put("p", a="0", b="0")) == 6
    assert points([nrt(zone(0)), AB], put("p")) == 6
    # The root of the machine is no zone.
    assert points([nrt({"name": "root", "type": "virtual node"}), AB], put("p")) == 6
    assert points([two(), AB], put("p", "n1")) == 6  # the other node has zones


def test_all_zones_of_one_socket_are_close() -> None:
    full = [pod(f"x{n}", container("c", "4")) for n in range(2)]
    placed = [put("x0", c="0"), put("x1", c="1")]
    wide = pod("p", container("a"), container("b"), affinity={"a": to("b", weight=3)})
    assert points([two(), *full, wide], *placed, put("p", a="01", b="01")) == 3


def test_ordered_pairs_in_both_directions() -> None:
    both = pod("p", container("a"), container("b"), affinity={"a": to("b", weight=3), "b": to("a", weight=4)}, anti={"b": ["a"]})
    assert points([both], put("p")) == 2 * (3 + 4 - 1)


def test_sidecars_count_and_init_containers_do_not() -> None:
    init = [container("s") | {"restartPolicy": "Always"}, container("i")]
    assert points([pod("p", container("a"), init=init, affinity={"a": to("s", "i"), "s": to("a", weight=5)})], put("p")) == 2 * 6


def test_default_scope_is_the_own_pod() -> None:
    pods = [pod(name, container("a"), container("b"), affinity={"a": to("b", weight=3)}) for name in ("p", "q")]
    assert points(pods, put("p"), put("q")) == 12


def test_scopes_reach_other_pods_on_the_node_and_only_there() -> None:
    a = pod("p", container("a"), affinity={"a": to("b", weight=3, scope=True)})
    others = [pod(f"q{n}", container("b"), container("x")) for n in range(3)]
    placed = [put("q0"), put("q1"), put("q2", "n1")]
    assert points([a, *others], put("p"), *placed) == 2 * 3 * 2
    assert points([a, *others], put("p", "n1"), *placed) == 2 * 3


def test_fixed_pods_count_with_placed_ones_but_not_with_each_other() -> None:
    pods = [
        pod("p", container("a"), affinity={"a": to("b", weight=3, scope=True)}),
        pod("f", container("b"), container("d"), on="n0", affinity={"b": to("a", weight=5, scope=True) + to("d", weight=100, scope=True)}),
        pod("g", container("b"), on="n0"),
        pod("h", container("b"), on="n1"),
        pod("done", container("b"), on="n0", phase="Succeeded"),
    ]
    assert points(pods, put("p")) == 2 * (2 * 3 + 5)
    assert points(pods, put("p"), absent=["g"]) == 2 * (3 + 5)
    assert points(pods, put("p"), put("g"), absent=["g"]) == 2 * (2 * 3 + 5)
    assert points(pods, put("p"), put("g", "n1"), absent=["g"]) == 2 * (3 + 5)
    # Their zones are not known.
    levels = Policy(closeness=Closeness(sameZone=9, sameSocket=5, sameNode=1))
    assert points([two(), *pods], put("p", a="0"), policy=levels) == 2 * 3 + 5
    assert points([two(), *pods], put("p", a="0")) == 0


def test_what_a_fixed_pod_has_that_cannot_be_read_is_ignored() -> None:
    bad = pod("f", container("b"), on="n0", affinity="a: b")
    tags = pod("g", container("b"), on="n0", affinity={"b": to("a", weight=5, scope=True)}, annotations={"kubestow.dev/tags.b": "nonsense"})
    a = pod("p", container("a"), affinity={"a": to("b", weight=3, scope=True)})
    assert points([bad, tags, a], put("p")) == 2 * (2 * 3 + 5)


def test_what_a_placed_pod_has_that_cannot_be_read_counts_as_none() -> None:
    """One tenant's mistake does not stop the others: a note names the pod."""
    assert points([pod("p", affinity="a: b")], put("p")) == 0
    tags = pod("p", container("a"), container("b"), affinity={"a": ["b"]}, annotations={"kubestow.dev/tags.a": "nonsense"})
    assert points([tags], put("p")) == 2


def test_multiplier_0_reads_no_hint() -> None:
    off = Policy(multipliers=Multipliers(containerAffinity=0))
    assert points([AB], put("p"), policy=off) == 0
    assert points([pod("p", affinity="a: b")], put("p"), policy=off) == 0
    assert points([AB], put("p"), policy=Policy(multipliers=Multipliers(containerAffinity=7))) == 6


def test_symmetric_shorthand() -> None:
    short = pod("p", container("a"), container("b"), affinity={"a": ["b"]})
    assert points([short], put("p")) == 2
    assert points([short], put("p"), policy=Policy(shorthand="symmetric")) == 4


def test_colocate_switches_are_for_containers_without_entries() -> None:
    plain = pod("p", container("a"), container("b"))
    assert points([plain], put("p"), policy=Policy(colocatePods=True)) == 2 * 20
    assert points([plain], put("p"), policy=Policy(colocatePods=True, colocateNamespaces=True)) == 2 * 40
    assert points([AB], put("p"), policy=Policy(colocatePods=True)) == 2 * (10 + 3)
    others = [pod("q", container("a")), pod("f", container("c"), on="n0"), pod("o", container("a"), namespace="other", on="n0")]
    # p: a, b, q: a, f: c → 4 containers, f's with the three others
    assert points([plain, *others], put("p"), put("q"), policy=Policy(colocateNamespaces=True)) == 2 * 10 * 12
    # zones: a with b in one zone, both with f somewhere on the node
    levels = Policy(colocateNamespaces=True, closeness=Closeness(sameZone=9, sameSocket=5, sameNode=1))
    assert points([two(), plain, others[1]], put("p", a="0", b="1"), policy=levels) == 10 * (2 * 5 + 4 * 1)


def test_points_are_those_of_the_matrix() -> None:
    rng = random.Random(7)
    names = ["a", "b", "c"]
    for _ in range(60):
        objects = []
        for i in range(rng.randint(1, 5)):
            hints = {
                rng.choice(names): to(rng.choice(names), weight=rng.randint(-9, 9), scope=rng.random() < 0.7)
                + to(rng.choice(names), weight=rng.randint(-9, 9))
                for _ in range(rng.randint(0, 2))
            }
            on = "n0" if rng.random() < 0.3 else None
            space = rng.choice(("default", "other"))
            own = rng.sample(names, rng.randint(1, 3))
            objects.append(pod(f"p{i}", *map(container, own), on=on, namespace=space, affinity=hints or None))
        pods, spaces = rng.random() < 0.3, rng.random() < 0.3
        numbers: dict[tuple[str, str], str] = {}
        placed = []
        for o in objects:
            if "nodeName" not in o["spec"]:
                listed = {c["name"]: rng.choice(("", "0", "1", "2", "3", "01", "0123")) for c in o["spec"]["containers"]}
                numbers |= {(o["metadata"]["name"], name): zones for name, zones in listed.items()}
                entry = put(o["metadata"]["name"], **listed)
                entry.pod = f"{o['metadata']['namespace']}/{o['metadata']['name']}"
                placed.append(entry)
        levels = Closeness(sameZone=7, sameSocket=3, sameNode=rng.choice((0, 1)))
        policy = Policy(colocatePods=pods, colocateNamespaces=spaces, closeness=levels)
        snapshot = from_objects([node("n0"), four(), *objects])
        seen, wanted = matrix(snapshot.pods, colocate_pods=pods, colocate_namespaces=spaces)
        expected = 0
        for (i, j), weight in wanted.items():
            a, b = ((seen[k].pod, seen[k].container) for k in (i, j))
            if a in numbers or b in numbers:
                x, y = numbers.get(a, ""), numbers.get(b, "")
                both = set(x + y)
                level = levels.sameNode
                if x and y:
                    sockets = {int(n) // 2 for n in both}
                    level = levels.sameZone if len(both) == 1 else levels.sameSocket if len(sockets) == 1 else levels.sameNode
                expected += weight * level
        assert judge(snapshot, placed, [], policy).points == expected


@pytest.mark.full
def test_many_pods_with_few_hints() -> None:
    objects = [pod(f"p{i}", *(container(c, "1m", "1") for c in "abcd")) for i in range(1500)]
    objects += [pod("q", container("x"), affinity={"x": to("a", scope=True)})]
    assert points(objects, *(put(f"p{i}") for i in range(1500)), put("q")) == 3000


# --- zones that are listed ----------------------------------------------------------------------------------------------


def test_what_is_listed_must_exist() -> None:
    p = pod("p", container("a"), init=[container("i")])
    assert the_fault([two(), p], put("p", z="0")) == ("p", "Zones: the pod runs no container 'z'")
    assert the_fault([two(), p], put("p", i="0")) == ("p", "Zones: the pod runs no container 'i'")
    assert the_fault([two(), p], put("p", a="7")) == ("p", "Zones: container a: the node has no zone 'node-7'")
    assert the_fault([two(), p], put("p", a="00")) == ("p", "Zones: container a: a zone is listed twice")
    assert the_fault([p], put("p", a="0")) == ("p", "Zones: container a has zones, of a node without NUMA zones")
    twice = put("p", a="0")
    twice.containers *= 2
    assert the_fault([two(), p], twice) == ("p", "Zones: container a is listed twice")
    assert faults([p], put("p", a="")) == []
    assert faults([two(), p], put("p", a="")) == []


def test_pods_and_nodes_that_are_not_there_and_second_mentions_are_not_judged() -> None:
    p = pod("p", container("a", "3"))
    done = pod("done", container("a", "3"), phase="Failed")
    assert faults([two(), p, done], put("p", a="0"), put("p", a="0"), put("gone", a="0"), put("p", "n9", a="0"), put("done", a="0")) == []


def test_a_zone_holds_no_more_than_is_available() -> None:
    pods = [pod(name, container("a", "2")) for name in "pqr"]
    assert faults([two(), *pods], put("p", a="0"), put("q", a="0"), put("r", a="1")) == []
    assert the_fault([two(), *pods], put("p", a="0"), put("q", a="0"), put("r", a="0")) == (
        "",
        "Zones: zones node-0 have 4 of cpu, the containers inside take 6",
    )
    less = nrt(zone(0, left="3"), zone(1))
    assert "have 3 of cpu" in the_fault([less, *pods], put("p", a="0"), put("q", a="0"), put("r", a="1"))[1]
    memory = [pod(name, container("a", "1", "5Gi")) for name in "pq"]
    assert "of memory" in the_fault([two(), *memory], put("p", a="0"), put("q", a="0"))[1]


def test_only_resources_that_some_zone_lists_count() -> None:
    bare = nrt(*({**zone(n), "resources": [{"name": "cpu", "capacity": "4"}]} for n in range(2)))
    assert faults([bare, pod("p", container("a", "1", "100Gi"))], put("p", a="0")) == []
    # A zone that does not list what another one does has none of it.
    lacks = nrt(zone(0), {**zone(1), "resources": [{"name": "cpu", "capacity": "4"}]})
    assert "node-1 have 0 of memory" in the_fault([lacks, pod("p", container("a"))], put("p", a="1"))[1]
    # Devices of containers that are not aligned are the node's affair.
    assert faults([nrt(zone(0, nic="1"), zone(1)), pod("p", container("a", nic="3"))], put("p", a="0")) == []


def test_sets_of_zones_hold_no_more_than_is_available() -> None:
    # Any two of three zones hold two of these; three in 0, 1 and 2, but a fourth one does not fit.
    wide = nrt(*(zone(n, "4") for n in range(3)), policy=RESTRICTED)
    pods = [pod(name, fixed_cpus("a", "6")) for name in "pqr"]
    assert faults([wide, *pods[:2]], put("p", a="01"), put("q", a="12")) == []
    found = faults([wide, *pods], put("p", a="01"), put("q", a="12"), put("r", a="02"))
    assert ("", "Zones: zones node-0, node-1, node-2 have 12 of cpu, the containers inside take 18") in found
    both = faults([wide, *pods[:2]], put("p", a="01"), put("q", a="01"))
    assert ("", "Zones: zones node-0, node-1 have 8 of cpu, the containers inside take 12") in both
    assert len([f for f in both if f[0] == ""]) == 1  # not again for all three zones


def test_more_than_ten_zones() -> None:
    many = nrt(*(zone(n, "4") for n in range(12)), policy=RESTRICTED)
    pods = [pod(name, fixed_cpus("a", cpu)) for name, cpu in (("p", "6"), ("q", "6"), ("r", "1"))]
    assert faults([many, *pods], put("p", a="01"), put("q", a="12"), put("r", a="3")) == []
    assert faults([many, *pods[:2]], put("p", a="01"), put("q", a="12")) == []
    extra = pod("s", fixed_cpus("a", "1"))
    assert the_fault([many, *pods, extra], put("p", a="01"), put("q", a="12"), put("r", a="2"), put("s", a="3"))[0] == ""


def test_a_shared_container_gets_a_zone_a_socket_or_the_node() -> None:
    p = pod("p", container("a", "6"))
    assert "no zone, socket or node" in the_fault([four(), p], put("p", a="02"))[1]
    assert "no zone, socket or node" in the_fault([four(), p], put("p", a="012"))[1]
    assert faults([four(), p], put("p", a="23")) == []
    assert faults([four(), pod("p", container("a", "9"))], put("p", a="0123")) == []
    assert faults([four(), pod("p", container("a", "4"))], put("p", a="3")) == []


def test_a_wider_pool_only_where_no_tighter_one_has_room() -> None:
    p = pod("p", container("a", "2"))
    assert the_fault([four(), p], put("p", a="01")) == ("p", "Zones: container a: has zones node-0, node-1, but node-0 has room for it")
    assert "node-0 has room" in the_fault([four(), p], put("p", a="0123"))[1]
    full = [pod(f"x{n}", container("c", "3")) for n in range(4)]
    held = [put(f"x{n}", c=f"{n}") for n in range(4)]
    # 1 CPU left in each of two zones of a socket: the socket holds it
    assert "node-0, node-1 has room" in the_fault([four(), *full, p], *held, put("p", a="0123"))[1]
    assert "but node-3 has room" in the_fault([four(), *full[:3], p], *held[:3], put("p", a="23"))[1]
    assert faults([four(), *full, p], *held, put("p", a="01")) == []


def test_a_socket_is_full_with_what_takes_all_of_it() -> None:
    x = pod("x", container("c", "5"))
    # node-0 alone would have room for 3, its socket has not; the other socket has
    p = pod("p", container("a", "4"))
    assert "but node-2 has room" in the_fault([four(), x, p], put("x", c="01"), put("p", a="0123"))[1]
    y = pod("y", container("c", "5"))
    assert faults([four(), x, y, p], put("x", c="01"), put("y", c="23"), put("p", a="0123")) == []


def test_what_takes_a_socket_is_in_it_already() -> None:
    # Moving p from the socket to its zone takes nothing more from the socket: the zone has room.
    x = pod("x", container("c", "3"))
    p = pod("p", container("a", "3"))
    assert "node-1 has room" in the_fault([four(), x, p], put("x", c="0"), put("p", a="01"))[1]
    # On a node of one socket the socket is the node: nothing around the zone, which has room.
    assert "node-1 has room" in the_fault([two(), x, p], put("x", c="0"), put("p", a="01"))[1]


def test_a_tighter_pool_that_could_never_hold_it_is_no_room() -> None:
    assert faults([two(), pod("p", container("a", "5"))], put("p", a="01")) == []
    assert faults([two(), pod("p", container("a", "1", "9Gi"))], put("p", a="01")) == []
    assert faults([four(), pod("p", container("a", "5"))], put("p", a="01")) == []


def test_a_container_without_requests_has_room_everywhere() -> None:
    full = pod("x", container("c", "4"))
    p = pod("p", container("a", None, None))
    assert faults([two(), full, p], put("x", c="0"), put("p", a="0")) == []
    assert "node-0 has room" in the_fault([two(), full, p], put("x", c="0"), put("p", a="01"))[1]


def test_all_zones_of_the_node_take_nothing_from_them() -> None:
    pods = [pod(f"x{n}", container("c", "3")) for n in range(2)]
    wide = [pod(name, container("a", "2")) for name in "pqr"]
    placed = [put("x0", c="0"), put("x1", c="1"), *(put(name, a="01") for name in "pqr")]
    assert faults([two(), *pods, *wide], *placed) == []


# --- zones of aligned containers ----------------------------------------------------------------------------------------


def test_aligned_containers_take_exactly_what_is_aligned() -> None:
    # The fraction of a CPU comes from the shared ones.
    pods = [pod("p", fixed_cpus("a", "4")), pod("q", fixed_cpus("a", "1500m"))]
    assert faults([two(policy=SINGLE), *pods], put("p", a="0"), put("q", a="0")) == []
    assert "have 4 of cpu" in the_fault([two(), *pods], put("p", a="0"), put("q", a="0"))[1]
    # Aligned by its device alone.
    nics = nrt(zone(0, nic="2"), zone(1, nic="2"), policy=SINGLE)
    burst = pod("q", container("a", "3", nic="1"))
    assert faults([nics, pods[0], burst], put("p", a="0"), put("q", a="0")) == []
    assert (
        the_fault([nics, pods[0], pod("q", container("a", "3", nic="1"), container("b", "1"))], put("p", a="0"), put("q", a="0", b="0"))[0]
        == ""
    )
    two_nics = [pod(name, container("a", nic="2")) for name in "pq"]
    assert "have 2 of example.com/nic" in the_fault([nics, *two_nics], put("p", a="0"), put("q", a="0"))[1]


def test_aligned_containers_with_all_zones_take_from_them() -> None:
    wide = [pod(name, fixed_cpus("a", "5")) for name in "pq"]
    found = faults([two(policy=RESTRICTED), *wide], put("p", a="01"), put("q", a="01"))
    assert ("", "Zones: zones node-0, node-1 have 8 of cpu, the containers inside take 10") in found
    # So does the only zone of a node.
    one = nrt(zone(0), policy=SINGLE)
    found = faults([one, *(pod(name, fixed_cpus("a", "3")) for name in "pq")], put("p", a="0"), put("q", a="0"))
    assert [key for key, _ in found] == ["", "q"]


def test_as_many_zones_as_the_policy_says() -> None:
    p = pod("p", fixed_cpus("a", "3"))
    for policy in (SINGLE, RESTRICTED):
        assert the_fault([two(policy=policy), p], put("p", a="01")) == ("p", f"Zones: container a: has 2 zones, under {policy} it gets 1")
        assert faults([two(policy=policy), p], put("p", a="1")) == []
        assert faults([two(policy=policy), p], put("p")) == []
    wide = pod("p", fixed_cpus("a", "5"))
    assert faults([four(policy=RESTRICTED), wide], put("p", a="02")) == []  # any two zones
    for numbers in ("0", "012"):
        found = faults([four(policy=RESTRICTED), wide], put("p", a=numbers))
        assert f"has {len(numbers)} zone{'s' * (len(numbers) > 1)}, under restricted it gets 2" in found[0][1]
    # By the total capacity, not by the remaining capacity.
    less = nrt(zone(0, left="1"), zone(1, left="1"), policy=RESTRICTED)
    assert "it gets 1" in faults([less, pod("p", fixed_cpus("a", "2"))], put("p", a="01"))[0][1]
    found = faults([two(policy=RESTRICTED), pod("p", fixed_cpus("a", "9"))], put("p", a="01"))
    assert found[0] == ("p", "Zones: container a: all zones together could not hold it (restricted)")


def test_pod_scope_counts_the_pod_once_and_in_one_place() -> None:
    p = pod("p", fixed_cpus("a", "2"), fixed_cpus("b", "2"))
    single = two(policy=SINGLE, scope="pod")
    assert faults([single, p], put("p", a="0", b="0")) == []
    assert faults([single, p], put("p", b="1")) == []
    assert the_fault([single, p], put("p", a="0", b="1")) == (
        "p",
        "Zones: the kubelet aligns the pod as one (pod scope), but its containers have different zones",
    )
    q = pod("q", fixed_cpus("a", "1"))
    assert "have 4 of cpu, the containers inside take 5" in the_fault([single, p, q], put("p", b="0"), put("q", a="0"))[1]
    # The effective request: init containers count, though they are not listed.
    init = pod("p", fixed_cpus("a", "1"), init=[fixed_cpus("i", "4")])
    assert the_fault([single, init, q], put("p", a="0"), put("q", a="0"))[0] == ""
    assert faults([two(policy=SINGLE), init, q], put("p", a="0"), put("q", a="0")) == []
    wide = pod("p", fixed_cpus("a", "3"), fixed_cpus("b", "3"))
    assert faults([two(policy=RESTRICTED, scope="pod"), wide], put("p", a="01", b="01")) == []
    found = faults([two(policy=RESTRICTED, scope="pod"), wide], put("p", a="0"))
    assert found[0] == ("p", "Zones: the pod: has 1 zone, under restricted it gets 2")


def test_pods_that_are_not_aligned_are_free_under_pod_scope() -> None:
    p = pod("p", container("a", "3"), container("b", "3"))
    assert faults([two(policy=SINGLE, scope="pod"), p], put("p", a="0", b="1")) == []


def test_aligned_containers_fill_zones_for_others() -> None:
    held = [pod(f"x{n}", fixed_cpus("c", "3")) for n in range(2)]
    placed = [put("x0", c="0"), put("x1", c="1")]
    shared = pod("p", container("a", "2"))
    assert faults([two(policy=SINGLE), *held, shared], *placed, put("p", a="01")) == []
    assert "node-1 has room" in the_fault([two(policy=SINGLE), held[0], shared], placed[0], put("p", a="01"))[1]


# --- the kubelet's own say ----------------------------------------------------------------------------------------------


def test_pods_arrive_in_bind_order_and_take_the_first_zones() -> None:
    pods = [pod(name, fixed_cpus("a", cpu)) for name, cpu in (("p", "3"), ("q", "2"), ("r", "2"), ("s", "1"))]
    single = two(policy=SINGLE)
    assert faults([single, *pods], *map(put, "pqrs")) == []
    # q and r fill the first zone between them, p the second, with room for s.
    assert faults([single, *pods], *map(put, "qrps")) == []
    # With q and s first, r does not fit next to them, nor p next to r.
    assert the_fault([single, *pods], *map(put, "qsrp")) == (
        "p",
        "NodeResourceTopologyMatch: container a asks for cpu 3, memory 1073741824: no NUMA zone has that much (single-numa-node)",
    )


def test_listed_zones_do_not_bind_the_kubelet() -> None:
    pods = [pod("p", fixed_cpus("a", "2")), pod("q", fixed_cpus("a", "2")), pod("r", fixed_cpus("a", "4"))]
    single = two(policy=SINGLE)
    assert faults([single, *pods], put("p", a="1"), put("q", a="1"), put("r", a="0")) == []
    # The zones would do, but first fit puts p in zone 0 with q, and so r's zone is taken from s.
    odd = [pod(name, fixed_cpus("a", cpu)) for name, cpu in (("p", "1"), ("q", "1"), ("r", "3"), ("s", "3"))]
    assert the_fault([single, *odd], put("p", a="0"), put("q", a="1"), put("r", a="0"), put("s", a="1"))[0] == "s"


def test_a_rejected_pod_holds_nothing() -> None:
    pods = [pod("p", fixed_cpus("a", "3"), fixed_cpus("b", "3"), fixed_cpus("c", "3")), pod("q", fixed_cpus("a", "4"))]
    assert [key for key, _ in faults([two(policy=SINGLE), *pods], put("p"), put("q"))] == ["p"]


def test_restricted_wants_the_fewest_zones() -> None:
    less = nrt(zone(0, left="2"), zone(1, left="2"), policy=RESTRICTED)
    for cpu, why in (("3", "no NUMA zone has"), ("5", "no 2 NUMA zones have"), ("9", "all NUMA zones together lack")):
        assert why in the_fault([less, pod("p", fixed_cpus("a", cpu))], put("p"))[1]
    assert faults([less, pod("p", fixed_cpus("a", "2"))], put("p")) == []


def test_resources_that_no_zone_lists() -> None:
    offers = node("n0", cpu="64", memory="256Gi")
    offers["status"]["allocatable"] |= {NIC: "4", "kubernetes.io/odd": "4", "hugepages-2Mi": "1Gi", "ephemeral-storage": "1Gi"}
    asks = {NIC: None, "ephemeral-storage": None, "example.com/absent": "p", "kubernetes.io/odd": "p", "hugepages-2Mi": "p"}
    for name, key in asks.items():
        c = fixed_cpus("a")
        c["resources"]["requests"][name] = c["resources"]["limits"][name] = "1"
        found = faults([offers, two(policy=SINGLE), pod("p", c)], put("p"))
        assert found == (
            [] if key is None else [(key, f"NodeResourceTopologyMatch: container a asks for {name}, which no NUMA zone lists")]
        )


def test_other_policies_turn_nobody_away() -> None:
    for policy in ("none", "best-effort"):
        assert faults([two(policy=policy), pod("p", fixed_cpus("a", "60"))], put("p")) == []
    assert len(faults([two(policy=SINGLE), pod("p", fixed_cpus("a", "60"))], put("p"))) == 1
    assert faults([two(policy=SINGLE), pod("p", container("a", "60"))], put("p")) == []


def test_the_policy_file_describes_nodes_too() -> None:
    zones = tuple(TopologyZone(f"node-{n}", {"cpu": 4, "memory": "8Gi"}) for n in range(2))
    policy = Policy(topologies=(Topology(zones=zones, nodes=("n0",), topologyManagerPolicy="single-numa-node"),))
    assert the_fault([pod("p", fixed_cpus("a", "5"))], put("p"), policy=policy)[0] == "p"
    assert points([AB], put("p", a="0", b="1"), policy=policy) == 3


@pytest.mark.full
def test_rejections_are_those_of_the_simulated_kubelet() -> None:
    compared = turned_away = 0
    for seed in range(300):
        objects = cluster(seed)
        rng = random.Random(seed)
        snapshot = from_objects(objects)
        pending = [o for o in objects if o["kind"] == "Pod" and "nodeName" not in o["spec"]]
        rng.shuffle(pending)
        names = [n.metadata.name or "" for n in snapshot.nodes]
        placed = [put(o["metadata"]["name"], rng.choice(names)) for o in pending]
        expected = set()
        for name in names:
            (found,) = (o for o in objects if o["kind"] == "NodeResourceTopology" and o["metadata"]["name"] == name)
            (raw,) = (o for o in objects if o["kind"] == "Node" and o["metadata"]["name"] == name)
            there = [o for o, entry in zip(pending, placed, strict=True) if entry.node == name]
            for o, outcome in zip(there, simulate(found, raw["status"]["allocatable"], there), strict=True):
                compared += 1
                if not outcome.admitted:
                    expected.add((f"default/{o['metadata']['name']}", name, "NodeResourceTopologyMatch"))
        turned_away += len(expected)
        assert {fault[:3] for fault in judge(snapshot, placed, [], DEFAULT).faults} == expected
    assert compared > 1500
    assert turned_away > 300


@pytest.mark.full
def test_the_kubelets_own_zones_are_without_fault() -> None:
    """Under every policy that rejects, what the kubelet gives is a list of zones that the checker lets pass."""
    listed = 0
    for seed in range(300):
        objects = cluster(seed)
        snapshot = from_objects(objects)
        pending = [o for o in objects if o["kind"] == "Pod" and "nodeName" not in o["spec"]]
        for found in (o for o in objects if o["kind"] == "NodeResourceTopology"):
            name = found["metadata"]["name"]
            (raw,) = (o for o in objects if o["kind"] == "Node" and o["metadata"]["name"] == name)
            placed = []
            for o, outcome in zip(pending, simulate(found, raw["status"]["allocatable"], pending), strict=True):
                if outcome.admitted:
                    running = {c["name"] for c in o["spec"]["containers"]}
                    containers = [ContainerZones(c, list(zones)) for c, zones in outcome.zones.items() if c in running]
                    placed.append(Assignment(f"default/{o['metadata']['name']}", name, 1, containers=containers))
                    listed += sum(bool(zones) for zones in outcome.zones.values())
            assert judge(snapshot, placed, [], DEFAULT).faults == []
    assert listed > 1000


# --- reading, against the product's own reading -------------------------------------------------------------------------


def read(plain: Object) -> tuple[Machine | None, node_topology.NumaTree | None]:
    found = msgspec.convert(plain, topology_objects.NodeResourceTopology)
    return topology_manager.read(kube_objects.Node(metadata=kube_objects.ObjectMeta(name="n")), found), node_topology.tree(found)


def assert_same(machine: Machine | None, tree: node_topology.NumaTree | None) -> None:
    if tree is None or machine is None:
        assert machine is None
        assert tree is None
        return
    assert (machine.zones, machine.available_by_zone, machine.total) == (tree.zones, tree.available, tree.capacity)
    assert (machine.policy, machine.scope, machine.rejects) == (tree.policy, tree.scope, tree.rejects)
    sockets = [sum(1 << n for n, s in enumerate(tree.socket) if s == number) for number in range(max(tree.socket) + 1)]
    assert list(machine.sockets) == sockets


NAMES = ["node-0", "node-1", "node-02", "node-10", "top", "alpha", "socket #0", "socket #1", "die #0/1", "die #0/0", "NUMA node #1"]
KINDS = ["Node", "node", "numa node", "NUMA_Node", "NumaNode", "socket", "Socket", "die", "virtual node", "di-e", "L3"]
QUANTITIES = st.sampled_from(["4", "1500m", "1.9999", "-1", "2Gi", None, 3])


@st.composite
def topologies(draw: st.DrawFn) -> Object:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=7, unique=draw(st.sampled_from([True, True, True, False]))))
    kinds = draw(st.sampled_from([["Node"], ["Node", "socket"], ["socket", "die"], ["socket", "die", "numa node"], KINDS]))
    zones = []
    for name in names:
        resources = [
            {"name": n, **{f: draw(QUANTITIES) for f in ("capacity", "allocatable", "available")}}
            for n in draw(st.lists(st.sampled_from(["cpu", "memory", NIC]), max_size=3, unique=True))
        ]
        costs = {n: draw(st.sampled_from([10, 11, 21])) for n in names if draw(st.booleans())}
        zones.append(
            {
                "name": name,
                "type": draw(st.sampled_from(kinds)),
                "parent": draw(st.sampled_from([None, "", "top", "root", *names])),
                "costs": [{"name": n, "value": v} for n, v in costs.items()],
                "resources": resources,
            }
        )
    found: Object = {"metadata": {"name": "n"}, "zones": zones}
    found["topologyPolicies"] = draw(
        st.sampled_from([None, [], ["RestrictedPodLevel"], ["SingleNUMANodeContainerLevel"], ["Other"], ["None"]])
    )
    attributes = st.sampled_from(
        [("topologyManagerPolicy", "restricted"), ("topologyManagerPolicy", "bad"), ("topologyManagerScope", "pod"), ("other", "x")]
    )
    found["attributes"] = [{"name": n, "value": v} for n, v in draw(st.lists(attributes, max_size=2))]
    return found


@pytest.mark.full
@given(topologies())
def test_any_topology_reads_alike_or_is_refused_by_both(plain: Object) -> None:
    try:
        tree = node_topology.tree(msgspec.convert(plain, topology_objects.NodeResourceTopology))
    except node_topology.TopologyError:
        with pytest.raises(MachineError, match="NodeResourceTopology n: ") as error:
            read(plain)
        assert "\n" not in str(error.value)
        return
    assert_same(read(plain)[0], tree)


@pytest.mark.parametrize("dies", [False, True])
def test_pools_of_the_other_dialect(dies: bool) -> None:
    machine, tree = read({"metadata": {"name": "n"}, "zones": nri_pools(dies=dies)})
    assert machine is not None
    assert machine.zones == tuple(f"NUMA node #{n}" for n in range(4))
    assert machine.sockets == (0b0011, 0b1100)
    assert_same(machine, tree)


def test_a_topology_that_cannot_be_read() -> None:
    bad = two(policy="sometimes")
    with pytest.raises(MachineError, match="NodeResourceTopology n0: attribute topologyManagerPolicy: unknown value 'sometimes'"):
        judged([bad, pod("p")], put("p"))
    assert faults([bad, pod("p")]) == []


@pytest.mark.full
def test_clusters_are_read_and_asked_alike() -> None:
    for seed in range(100):
        snapshot = from_objects(cluster(seed))
        for found in snapshot.node_topologies.values():
            assert_same(
                topology_manager.read(kube_objects.Node(metadata=kube_objects.ObjectMeta(name="n")), found), node_topology.tree(found)
            )
        for asking in snapshot.pods:
            for scope in node_topology.SCOPES:
                ours = [(ask.container, dict(ask.amounts), ask.stays) for ask in topology_manager.asks(asking, scope)]
                assert ours == [(ask.name, dict(ask.amounts), ask.kind != "init") for ask in alignment.asks(asking, scope)]


def test_with_pod_level_resources_only_devices_are_aligned() -> None:
    plain = pod("p", fixed_cpus("a", nic="1"))
    plain["spec"]["resources"] = {"requests": {"cpu": "4", "memory": "4Gi"}, "limits": {"cpu": "4", "memory": "4Gi"}}
    (found,) = from_objects([plain]).pods
    assert [dict(ask.amounts) for ask in topology_manager.asks(found, "container")] == [{NIC: 1}]


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=6),
    st.integers(0, 12),
    st.integers(0, 12),
    st.integers(1, 6),
)
def test_the_lowest_set_of_zones_is_found(zones: list[tuple[int, int]], cpu: int, memory: int, size: int) -> None:
    per_zone = [{"cpu": a, "memory": b} for a, b in zones]
    fitting = [
        chosen
        for chosen in range(1 << len(zones))
        if chosen.bit_count() == size
        and sum(a for n, (a, _) in enumerate(zones) if chosen >> n & 1) >= cpu
        and sum(b for n, (_, b) in enumerate(zones) if chosen >> n & 1) >= memory
    ]
    assert kubelet._lowest(per_zone, {"cpu": cpu, "memory": memory}, size, len(zones)) == min(fitting, default=None)


@given(st.lists(st.tuples(st.integers(1, 63), st.integers(1, 9)), max_size=8), st.lists(st.integers(0, 9), min_size=6, max_size=6))
def test_every_set_of_zones_is_checked_for_room(taken: list[tuple[int, int]], left: list[int]) -> None:
    sets = range(1, 64)
    short = any(
        sum(amount for pool, amount in taken if pool & zones == pool) > sum(n for place, n in enumerate(left) if zones >> place & 1)
        for zones in sets
    )
    for extra in (0, 6):  # with twelve zones not every set is
        amounts = tuple({"cpu": n} for n in (*left, *[0] * extra))
        machine = Machine(tuple(f"z{n}" for n in range(len(amounts))), (), amounts, amounts, RESTRICTED, "container", ())
        room = _Room(machine, [_Item("p", "c", {"cpu": amount}, pool, aligned=True) for pool, amount in taken])
        assert bool(list(room.overfull())) <= short
        if not extra or len(taken) <= 3:
            assert bool(list(room.overfull())) == short
