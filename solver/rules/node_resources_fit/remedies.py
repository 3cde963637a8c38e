"""The remedies for NodeResourcesFit: misspelt names of resources, and requests lowered to the largest amount that fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Final

import msgspec
import numpy as np

from kubestow.models.cluster.cluster import HARD_EFFECTS, Cluster, Ints
from kubestow.models.cluster.near_misses import meant_resources, near_miss
from kubestow.models.documents.placement import Remedy
from kubestow.models.kube import quantity
from kubestow.models.kube.objects import Container, Pod, ResourceList, ResourceRequirements
from kubestow.models.kube.pod_requests import allocatable, pod_request
from kubestow.models.kube.selectors import UNSCHEDULABLE_TAINT
from kubestow.models.workloads.ownership import PodOwners, name
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.remedies import LOWER_REQUEST, Arguments, Idea, Number, PodEdit, with_spec
from kubestow.solver.rules.wording import listed

#: Divisor of a request: smaller amounts are no longer the same pod, and not suggested.
_MAX_REDUCTION: Final = 10
#: Maximum number of pods of one class that are considered on one node.
_MAX_PODS_PER_NODE: Final = 8
_BYTE_UNITS: Final = ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki"))


def amount_text(resource: str, value: int) -> str:
    """Return an amount as an exact quantity."""
    if resource == "cpu":
        return quantity.format_cpu(value)
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for shift, unit in _BYTE_UNITS:
            if value and value % (1 << shift) == 0:
                return f"{value >> shift}{unit}"
    return str(value)


def _fitting(cluster: Cluster, g: int, r: int) -> list[int]:
    """Return the smaller requests of a resource at which one more node takes one more pod of class g, the largest first.

    Nodes that the pods' node rules and tolerations exclude are left out, to save queries.
    """
    demand, pods = cluster.demand[g], cluster.classes[g]
    tolerations = cluster.toleration_sets[pods.tolerations]
    open_nodes = cluster.node_sets[pods.node_rule] & cluster.nodes.tolerated(tolerations, HARD_EFFECTS)
    if not tolerations.cover(UNSCHEDULABLE_TAINT):
        open_nodes = open_nodes & ~cluster.nodes.unschedulable
    others = np.arange(len(demand)) != r
    nodes = (cluster.free[:, others] >= demand[others])[:, demand[others] > 0].all(axis=1) & (cluster.slots > 0) & open_nodes
    free: Ints = np.unique(cluster.free[nodes, r])
    count = min(int(cluster.count[g]), _MAX_PODS_PER_NODE)
    found = {value // k for value in free[free > 0].tolist() for k in range(1, count + 1)}
    return sorted((value for value in found if max(1, int(demand[r]) // _MAX_REDUCTION) <= value < demand[r]), reverse=True)


# --- changes of pods ------------------------------------------------------------------------------------------------------


def _changed(pod: Pod, change: Callable[[Container], Container]) -> Pod:
    """Return the pod with its containers changed."""

    def of(containers: list[Container] | None) -> list[Container] | None:
        return [change(container) for container in containers] if containers else containers

    return with_spec(pod, containers=of(pod.spec.containers), initContainers=of(pod.spec.initContainers))


def _renamed(pod: Pod, arguments: Arguments) -> Pod:
    wrong, meant = arguments["resource"], arguments["to"]

    def names(amounts: ResourceList | None) -> ResourceList | None:
        return {meant if key == wrong else key: value for key, value in amounts.items()} if amounts else amounts

    def renamed(container: Container) -> Container:
        own = container.resources
        if own is None:
            return container
        resources = msgspec.structs.replace(own, requests=names(own.requests), limits=names(own.limits))
        return msgspec.structs.replace(container, resources=resources)

    return _changed(pod, renamed)


def _lowered(pod: Pod, arguments: Arguments) -> Pod:
    """Return the pod with its request lowered, at the expense of the container that requests most of the resource."""
    resource, overhead = arguments["resource"], quantity.parse((pod.spec.overhead or {}).get(arguments["resource"], 0))
    most = quantity.parse(arguments["to"]) - overhead
    apps = [*(pod.spec.containers or ()), *(c for c in pod.spec.initContainers or () if c.restartPolicy == "Always")]
    largest = max(apps, key=lambda container: _request(container, resource), default=None)
    rest = sum((_request(container, resource) for container in apps if container is not largest), Fraction(0))

    def lowered(container: Container) -> Container:
        limit = most - rest if container is largest else most
        return _at_most(container, resource, limit) if limit > 0 else container

    changed = _changed(pod, lowered)
    whole = pod.spec.resources
    if whole is None or most <= 0 or resource not in (whole.requests or {}):
        return changed
    return with_spec(changed, resources=_limited(whole, resource, most))


def _request(container: Container, resource: str) -> Fraction:
    requests = (container.resources.requests if container.resources is not None else None) or {}
    return quantity.parse(requests.get(resource, 0))


def _at_most(container: Container, resource: str, most: Fraction) -> Container:
    if container.resources is None or _request(container, resource) <= most:
        return container
    return msgspec.structs.replace(container, resources=_limited(container.resources, resource, most))


def _limited(resources: ResourceRequirements, resource: str, most: Fraction) -> ResourceRequirements:
    """Return the resources with a lower request. A limit that equals the request follows it."""
    requests, limits, text = resources.requests or {}, resources.limits or {}, quantity.canonical(most)
    follows = resource in limits and quantity.parse(limits[resource]) == quantity.parse(requests[resource])
    changed = limits | {resource: text} if follows else resources.limits
    return msgspec.structs.replace(resources, requests=requests | {resource: text}, limits=changed)


# --- near-misses ------------------------------------------------------------------------------------------------------------


def resource_hint(cluster: Cluster, resource: str) -> str:
    """Return a clause on the resources that may be meant by one that no node has, with the free amounts."""
    meant = [f"{each} ({listed(_free_amounts(cluster, each)) or '0 free'})" for each in meant_resources(cluster.snapshot.nodes, resource)]
    return near_miss(f"no node has {resource}", meant)


def _free_amounts(cluster: Cluster, resource: str) -> Iterable[str]:
    """Yield ``8 free on n1`` for each node, the largest amount first."""
    snapshot = cluster.snapshot
    free: dict[str, int] = {}
    for node in snapshot.nodes:
        amounts = allocatable(node.status.allocatable if node.status is not None else None)
        if amounts.get(resource):
            free[node.metadata.name or ""] = amounts[resource]
    for pod in (snapshot.pods[i] for i in cluster.scope.fixed):
        if pod.spec.nodeName in free and any(_request(container, resource) for container in pod.spec.containers or ()):
            free[pod.spec.nodeName] -= pod_request(pod, snapshot.gates).get(resource, 0)
    for at, amount in sorted(free.items(), key=lambda item: (-item[1], item[0])):
        yield f"{amount_text(resource, max(0, amount))} free on {at}"


# --- faces ---------------------------------------------------------------------------------------------------------------------


class RequestRemedies(Rule):
    """Requests to correct or to lower."""

    pod_changes = {
        "correctResource": PodEdit(_renamed, new_pods_only=True),
        LOWER_REQUEST: PodEdit(_lowered, new_pods_only=True),
    }

    @classmethod
    def corrections(cls, cluster: Cluster) -> Iterator[Idea]:
        owners = PodOwners(cluster.snapshot).group(cluster.scope.pending)
        for resource in cluster.resources:
            for meant in meant_resources(cluster.snapshot.nodes, resource):
                for owner, pods in owners.items():
                    if resource in pod_request(cluster.snapshot.pods[pods[0]], cluster.snapshot.gates):
                        message = f"request {meant} instead of {resource} in {name(owner)}"
                        arguments = {"workload": owner, "resource": resource, "to": meant}
                        yield Idea(cls.name, 0, Remedy("correctResource", message, arguments))

    @classmethod
    def lowers(cls, cluster: Cluster) -> Iterator[Number]:
        """Yield the request of each resource of each workload, in mCPU, bytes or whole units."""
        class_of = {i: g for g, pods in enumerate(cluster.classes) for i in pods.pods}
        for owner, pods in PodOwners(cluster.snapshot).group(cluster.scope.pending).items():
            classes = list(dict.fromkeys(class_of[i] for i in pods if i in class_of))
            for r, resource in enumerate(cluster.resources) if len(classes) == 1 else ():
                request = int(cluster.demand[classes[0], r])
                values = _fitting(cluster, classes[0], r)

                def lowered(to: int, owner: str = owner, resource: str = resource, request: int = request) -> Remedy:
                    before, after = amount_text(resource, request), amount_text(resource, to)
                    unit = "CPU" if resource == "cpu" else resource
                    message = f"request at most {after} {unit} instead of {before} in {name(owner)}"
                    return Remedy(LOWER_REQUEST, message, {"workload": owner, "resource": resource, "from": before, "to": after})

                if values:
                    # Next to pods of other classes, other amounts than the free ones may fit.
                    alone = int(np.count_nonzero(cluster.demand[:, r])) == 1
                    yield Number(request, values[-1], lowered, tuple(values), exact=alone)
