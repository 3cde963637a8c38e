"""Random small clusters with tight NUMA zones: pods that fit a node as a whole often do not fit its zones."""

from __future__ import annotations

import random
from typing import Any

Object = dict[str, Any]

NIC = "example.com/nic"  # listed by zone on nodes that have it
TPU = "example.com/tpu"  # listed by the node only

_LEGACY = {"single-numa-node": "SingleNUMANode", "restricted": "Restricted", "best-effort": "BestEffort"}


def cluster(seed: int) -> list[Object]:
    """Return 1 to 4 nodes, each with its NodeResourceTopology, and 3 to 14 pending pods, in order of arrival.

    Some nodes also run a pod ``running-…``, whose requests are subtracted from ``available`` (but not from the node's allocatable).
    Policies are mostly single-numa-node and restricted; node allocatable is at least the sum over the zones. The same seed always gives
    the same objects.
    """
    rng = random.Random(seed)
    size = rng.choice((4, 4, 6, 8))  # CPUs of a zone
    memory = size * rng.choice((1, 2))  # Gi of a zone
    nodes, zones = [], 0
    for number in range(rng.choice((1, 2, 2, 3, 4))):
        made = _node(rng, f"n{number}", size, memory)
        zones += sum(1 for zone in made[1]["zones"] if zone.get("resources") and zone["type"] in ("Node", "numa node"))
        nodes.append(made)
    # On average a little over half a zone each: two such pods do not fit one zone.
    count = min(14, max(3, round(zones * rng.uniform(0.9, 1.5))))
    return [obj for made in nodes for obj in made] + [_pod(rng, f"p{number}", size, memory) for number in range(count)]


# --- nodes --------------------------------------------------------------------------------------------------------------


def _node(rng: random.Random, name: str, size: int, memory: int) -> list[Object]:
    sockets, per_socket = rng.choice(((1, 2), (2, 1), (2, 1), (1, 3), (2, 2), (2, 2), (1, 4), (2, 3), (2, 4)))
    count = sockets * per_socket
    nics = [rng.choice((0, 1, 2, 4)) for _ in range(count)] if rng.random() < 0.5 else None
    resources: list[list[Object]] = []
    for zone in range(count):
        # Some zones have less than others, like the first ones of nodes with CPUs reserved for the system.
        cpu = size - (rng.choice((1, 2)) if rng.random() < 0.2 else 0)
        listed = [_resource("cpu", str(size), str(cpu)), _resource("memory", f"{memory + 1}Gi", f"{memory}Gi")]
        if nics is not None:
            listed.append(_resource(NIC, str(nics[zone]), str(nics[zone])))
        resources.append(listed)

    allocatable = {
        "cpu": str(sum(int(r[0]["allocatable"]) for r in resources) + rng.choice((0, 0, 1))),
        "memory": f"{memory * count + rng.choice((0, 2))}Gi",
        "pods": "110",
        "ephemeral-storage": "100Gi",
    }
    if nics is not None:
        allocatable[NIC] = str(sum(nics))
    if rng.random() < 0.3:
        allocatable[TPU] = "2"
    running = _running(rng, name, resources) if rng.random() < 0.25 else []
    zones = _pools(resources, sockets, per_socket, rng) if rng.random() < 0.4 else _nfd(resources, per_socket, rng)
    topology = {
        "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": {"name": name},
        **_manager(rng), "zones": zones,
    }  # fmt: skip
    node = {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {}, "status": {"allocatable": allocatable},
    }  # fmt: skip
    return [node, topology, *running]


def _resource(name: str, capacity: str, allocatable: str) -> Object:
    return {"name": name, "capacity": capacity, "allocatable": allocatable, "available": allocatable}


def _running(rng: random.Random, node: str, resources: list[list[Object]]) -> list[Object]:
    """Return a running pod that uses one CPU and one Gi of a zone."""
    for resource, unit in zip(rng.choice(resources), ("", "Gi"), strict=False):
        resource["available"] = f"{int(resource['available'].removesuffix('Gi')) - 1}{unit}"
    pod = _object(f"running-{node}", [_container("c", {"cpu": "1", "memory": "1Gi"})])
    pod["spec"]["nodeName"] = node
    pod["status"]["phase"] = "Running"
    return [pod]


def _manager(rng: random.Random) -> Object:
    policy = rng.choice(("single-numa-node",) * 5 + ("restricted",) * 4 + ("best-effort", "none"))
    scope = rng.choice(("container", "container", "pod"))
    if policy != "none" and rng.random() < 0.3:
        return {"topologyPolicies": [f"{_LEGACY[policy]}{scope.capitalize()}Level"]}
    attributes = [{"name": "topologyManagerPolicy", "value": policy}, {"name": "topologyManagerScope", "value": scope}]
    # Attributes take precedence over the deprecated field.
    return {"attributes": attributes, **({"topologyPolicies": ["BestEffortPodLevel"]} if rng.random() < 0.2 else {})}


def _nfd(resources: list[list[Object]], per_socket: int, rng: random.Random) -> list[Object]:
    zones: list[Object] = []
    with_parent = rng.random() < 0.5
    for number, listed in enumerate(resources):
        costs = [10 if number == other else 11 if number // per_socket == other // per_socket else 21 for other in range(len(resources))]
        zone: Object = {"name": f"node-{number}", "type": "Node", "resources": listed}
        zone["costs"] = [{"name": f"node-{other}", "value": cost} for other, cost in enumerate(costs)]
        if with_parent:
            zone["parent"] = f"socket-{number // per_socket}"
        zones.append(zone)
    rng.shuffle(zones)
    return zones


def _pools(resources: list[list[Object]], sockets: int, per_socket: int, rng: random.Random) -> list[Object]:
    zones: list[Object] = [{"name": "root", "type": "virtual node"}] if rng.random() < 0.7 else []
    dies = per_socket == 4 and rng.random() < 0.5
    for socket in range(sockets):
        name = f"socket #{socket}"
        zones.append({"name": name, "type": "socket", "parent": "root", "resources": [_resource("cpu", "1", "1")]})
        if dies:
            zones += [{"name": f"die #{socket}/{die}", "type": "die", "parent": name} for die in (0, 1)]
        for place in range(per_socket):
            number = socket * per_socket + place
            parent = f"die #{socket}/{place // 2}" if dies else name
            zones.append({"name": f"NUMA node #{number}", "type": "numa node", "parent": parent, "resources": resources[number]})
    rng.shuffle(zones)
    return zones


# --- pods ---------------------------------------------------------------------------------------------------------------


def _pod(rng: random.Random, name: str, size: int, memory: int) -> Object:
    kind = rng.choice(("one",) * 4 + ("two", "two", "wide", "fraction", "burstable", "device", "sidecar", "init"))
    most = size // 2 + 1  # two of these do not share a zone
    share = {"cpu": str(rng.choice((most, most, most - 1, 1))), "memory": f"{rng.randint(1, max(1, memory // 2))}Gi"}
    small = {"cpu": "1", "memory": "1Gi"}
    if kind == "two":
        return _object(name, [_container("a", share), _container("b", {"cpu": str(most - 1), "memory": "1Gi"})])
    if kind == "wide":
        # Larger than a zone in CPUs, in memory, or in both.
        cpu, gib = str(rng.randint(size + 1, 2 * size - 2)), f"{rng.randint(memory + 1, 2 * memory - 1)}Gi"
        wide = rng.choice(
            ({"cpu": cpu, "memory": gib}, {"cpu": cpu, "memory": gib}, {"cpu": cpu, "memory": "1Gi"}, {"cpu": "1", "memory": gib})
        )
        return _object(name, [_container("c", wide)])
    if kind == "fraction":
        return _object(name, [_container("a", {"cpu": "1500m", "memory": f"{memory // 2 + 1}Gi"}), _container("b", small)])
    if kind == "burstable":
        return _object(name, [_container("c", share, limits=False)])
    if kind == "device":
        device = rng.choice(({NIC: "1"}, {NIC: "2"}, {NIC: "3"}, {TPU: "1"}))
        guaranteed = rng.random() < 0.5
        resources = {"requests": share | device, "limits": (share if guaranteed else {}) | device}
        return _object(name, [{"name": "c", "image": "i", "resources": resources}])
    if kind == "sidecar":
        init = [_container("s", small) | {"restartPolicy": "Always"}, _container("i", share)]
        return _object(name, [_container("c", {"cpu": str(most - 1), "memory": "1Gi"})], init)
    if kind == "init":
        return _object(name, [_container("c", small)], [_container("i", {"cpu": str(size - 1), "memory": "1Gi"})])
    return _object(name, [_container("c", share)])


def _container(name: str, resources: dict[str, str], *, limits: bool = True) -> Object:
    return {"name": name, "image": "i", "resources": {"requests": resources, **({"limits": dict(resources)} if limits else {})}}


def _object(name: str, containers: list[Object], init: list[Object] | None = None) -> Object:
    spec: Object = {"containers": containers, **({"initContainers": init} if init else {})}
    metadata = {"name": name, "namespace": "default", "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
