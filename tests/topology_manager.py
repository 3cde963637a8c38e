"""A plain simulation of the kubelet's Topology Manager on one node, as a reference for placements.

Shares nothing but the quantity parser with the code under test. Source: spec/container-affinity.md, section 6;
pkg/kubelet/cm/topologymanager (scope_container.go, scope_pod.go, policy_restricted.go, policy_single_numa_node.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from typing import Any

from kubestow.models.kube.quantity import parse

Object = Mapping[str, Any]
Amounts = dict[str, Fraction]

_POLICIES = {"SingleNUMANode": "single-numa-node", "Restricted": "restricted", "BestEffort": "best-effort"}


@dataclass(frozen=True)
class Outcome:
    """The result of a pod's admission.

    Attributes:
        reason: ``admitted``, or the reason for the rejection.
        zones: Names of the zones of each container, in order of their ids; for an init container, the zones it was checked on. Empty for a
            container without aligned resources, and under policies that do not reject. With pod scope, all containers have equal zones.
        container: The rejected container; "" for the pod as a whole, or if the pod was admitted.
    """

    reason: str
    zones: dict[str, tuple[str, ...]] = field(default_factory=dict)
    container: str = ""

    @property
    def admitted(self) -> bool:
        return self.reason == "admitted"


@dataclass
class _Zone:
    name: str
    capacity: Amounts
    left: Amounts


def simulate(topology: Object, allocatable: Mapping[str, str | int], pods: Iterable[Object]) -> list[Outcome]:
    """Admit new pods one after the other. A rejected pod uses no resources.

    Args:
        topology: The NodeResourceTopology. Running pods are already subtracted from ``available``.
        allocatable: The allocatable resources of the node's status.
        pods: The new pods, in order of arrival.
    """
    policy, scope = manager(topology)
    zones = _zones(topology)
    outcomes = []
    for pod in pods:
        containers = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
        if policy not in ("single-numa-node", "restricted"):
            outcomes.append(Outcome("admitted", {c["name"]: () for c in containers}))
            continue
        before = [dict(zone.left) for zone in zones]
        outcome = _admit_pod(zones, allocatable, pod, policy) if scope == "pod" else _admit_containers(zones, allocatable, pod, policy)
        if not outcome.admitted:
            for zone, left in zip(zones, before, strict=True):
                zone.left = left
        outcomes.append(outcome)
    return outcomes


def manager(topology: Object) -> tuple[str, str]:
    """Return the policy and the scope."""
    policy, scope = "none", "container"
    legacy = (topology.get("topologyPolicies") or [""])[0]
    for start, name in _POLICIES.items():
        for end, level in (("ContainerLevel", "container"), ("PodLevel", "pod")):
            if legacy == start + end:
                policy, scope = name, level
    attributes = {a["name"]: a["value"] for a in topology.get("attributes") or ()}
    return attributes.get("topologyManagerPolicy", policy), attributes.get("topologyManagerScope", scope)


def _zones(topology: Object) -> list[_Zone]:
    """Return the zones without children, in order of ids."""
    listed = topology["zones"]
    parents = {zone.get("parent") for zone in listed}
    leaves = [z for z in listed if z["name"] not in parents and z["type"].lower() in ("node", "numa node", "die", "socket")]
    zones = []
    for zone in sorted(leaves, key=lambda z: _id(z["name"])):
        resources = zone.get("resources") or ()
        total = {r["name"]: _amount(r, "allocatable", "capacity", "available") for r in resources}
        zones.append(_Zone(zone["name"], total, {r["name"]: _amount(r, "available", "allocatable", "capacity") for r in resources}))
    return zones


def _id(name: str) -> tuple[int, ...]:
    """Return the sort key of a zone name: 3 for ``node-3``, (0, 1) for ``die #0/1``. Names without a number come last."""
    end = name[len(name.rstrip("0123456789/")) :].strip("/")
    return tuple(int(number) for number in end.split("/")) if end else (10**9,)


def _amount(resource: Object, *fields: str) -> Fraction:
    return max(Fraction(0), parse(next(resource[f] for f in fields if resource.get(f) is not None)))


# --- requests ---------------------------------------------------------------------------------------------------------------


def _requests(container: Object) -> Amounts:
    """Return the requests, with limits as the default."""
    resources = container.get("resources") or {}
    return {name: parse(raw) for name, raw in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items()}


def _guaranteed(pod: Object) -> bool:
    for container in [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]:
        limits = (container.get("resources") or {}).get("limits") or {}
        for name in ("cpu", "memory"):
            if name not in limits or not parse(limits[name]) or parse(limits[name]) != _requests(container)[name]:
                return False
    return True


def _to_align(container: Object, guaranteed: bool) -> Amounts:
    asked = {}
    for name, amount in _requests(container).items():
        native = name in ("cpu", "memory") or name.startswith("hugepages-")
        shared = name == "cpu" and amount.denominator != 1  # a fraction of a CPU comes from the shared pool
        if amount and (guaranteed or not native) and not shared:
            asked[name] = amount
    return asked


def _effective(pod: Object) -> Amounts:
    guaranteed = _guaranteed(pod)
    names = {name for c in [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]] for name in _to_align(c, guaranteed)}
    asked = {}
    for name in names:
        sidecars = most = Fraction(0)
        for container in pod["spec"].get("initContainers") or ():
            own = _to_align(container, guaranteed).get(name, Fraction(0))
            most = max(most, sidecars + own)
            if container.get("restartPolicy") == "Always":
                sidecars += own
        running = sum((_to_align(c, guaranteed).get(name, Fraction(0)) for c in pod["spec"]["containers"]), sidecars)
        asked[name] = max(most, running)
    return asked


# --- admission ----------------------------------------------------------------------------------------------------------


def _admit_pod(zones: Sequence[_Zone], allocatable: Mapping[str, str | int], pod: Object, policy: str) -> Outcome:
    chosen = _choose(zones, allocatable, _effective(pod), policy)
    if chosen is None:
        return Outcome("TopologyAffinityError")
    _take(chosen, _effective(pod))
    containers = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    return Outcome("admitted", {c["name"]: tuple(zone.name for zone in chosen) for c in containers})


def _admit_containers(zones: Sequence[_Zone], allocatable: Mapping[str, str | int], pod: Object, policy: str) -> Outcome:
    """Admit the containers of a pod one by one.

    CPUs and devices of ordinary init containers stay reserved for the pod, and bind later containers to their zones until these use
    them. The next container can reuse the memory of init containers.
    """
    guaranteed = _guaranteed(pod)
    init = [(c, c.get("restartPolicy") == "Always") for c in pod["spec"].get("initContainers") or ()]
    got = {}
    reusable: list[Amounts] = [{} for _ in zones]
    for container, keeps in [*init, *((c, True) for c in pod["spec"]["containers"])]:
        asked = _to_align(container, guaranteed)
        chosen = _choose(zones, allocatable, asked, policy, reusable)
        if chosen is None:
            return Outcome("TopologyAffinityError", container=container["name"])
        _reuse(zones, chosen, asked, reusable, keeps=keeps)
        got[container["name"]] = tuple(zone.name for zone in chosen)
    for zone, amounts in zip(zones, reusable, strict=True):
        for name, amount in amounts.items():
            zone.left[name] += amount
    return Outcome("admitted", got)


def _memory(name: str) -> bool:
    return name == "memory" or name.startswith("hugepages-")


def _reuse(zones: Sequence[_Zone], chosen: Sequence[_Zone], asked: Amounts, reusable: list[Amounts], *, keeps: bool) -> None:
    mine = [(zone, amounts) for zone, amounts in zip(zones, reusable, strict=True) if any(zone is other for other in chosen)]
    for name, amount in asked.items():
        if _memory(name):
            if keeps:
                _take(chosen, {name: amount})
            continue
        again = [(amounts, i, 0) for i, (_, amounts) in enumerate(mine)]
        fresh = [(zone.left, i, 1) for i, (zone, _) in enumerate(mine)]
        for store, i, new in sorted([*again, *fresh], key=lambda e: (e[1], e[2]) if name == "cpu" else (e[2], e[1])):
            part = min(amount, store.get(name, Fraction(0)))
            amount -= part
            if part and (keeps or new):
                store[name] -= part
            if part and new and not keeps:
                mine[i][1][name] = mine[i][1].get(name, Fraction(0)) + part


def _choose(
    zones: Sequence[_Zone], allocatable: Mapping[str, str | int], asked: Amounts, policy: str, reusable: Sequence[Amounts] = ()
) -> Sequence[_Zone] | None:
    """Return the zones for a request (empty if it needs none), or None if the policy rejects it."""
    listed = {name: amount for name, amount in asked.items() if any(name in zone.capacity for zone in zones)}
    for name in asked.keys() - listed.keys():
        by_node = name in ("ephemeral-storage", "storage") or ("/" in name and "kubernetes.io/" not in name)
        if name not in allocatable or not by_node:
            return None
    if not listed:
        return ()
    held: Sequence[Amounts] = reusable or [{} for _ in zones]
    sizes = [1] if policy == "single-numa-node" else range(1, len(zones) + 1)
    for size in sizes:
        subsets = sorted(combinations(range(len(zones)), size), key=lambda subset: sum(1 << i for i in subset))
        if policy == "restricted" and not any(_holds([zones[i].capacity for i in subset], listed) for subset in subsets):
            continue  # even an empty node needs more zones
        for subset in subsets:
            outside = [amounts for i, amounts in enumerate(held) if i not in subset]
            tied = any(amounts.get(name) for amounts in outside for name in listed)
            if not tied and _holds([store for i in subset for store in (zones[i].left, held[i])], listed):
                return [zones[i] for i in subset]
        return None
    return None


def _holds(amounts: Sequence[Amounts], asked: Amounts) -> bool:
    return all(sum(zone.get(name, Fraction(0)) for zone in amounts) >= amount for name, amount in asked.items())


def _take(chosen: Sequence[_Zone], asked: Amounts) -> None:
    for name, amount in asked.items():
        for zone in chosen:
            part = min(amount, zone.left.get(name, Fraction(0)))
            if part:
                zone.left[name] -= part
                amount -= part
