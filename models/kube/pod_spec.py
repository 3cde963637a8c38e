"""What placement reads of a pod's spec as it is: the claims that it mounts, its affinity terms, its host ports, its
quality-of-service class."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from kubestow.models.kube import quantity
from kubestow.models.kube.objects import Node, Pod, PodAffinityTerm, PodSpec, ResourceList, WeightedPodAffinityTerm

Port = tuple[str, str, int]  # hostIP ("" and 0.0.0.0 are "*"), protocol, port

#: The provisioner of storage classes whose volumes are made by hand.
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
#: The annotation of a claim whose volume is made for a node.
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
#: A storage class of this project: volumes are made wherever the pod goes, and count against no limit.
ANYWHERE: Final = "kubestow.dev/anywhere"

#: The label that a kubelet gives its node.
OS_LABEL: Final = "kubernetes.io/os"

GUARANTEED: Final = "Guaranteed"
BURSTABLE: Final = "Burstable"
BEST_EFFORT: Final = "BestEffort"
_COUNTED: Final = ("cpu", "memory")


def claim_keys(pod: Pod) -> tuple[str, ...]:
    """Return ``namespace/name`` of the claims a pod mounts, in order and once; an ephemeral volume's claim is ``<pod>-<volume>``."""
    return tuple(dict.fromkeys((*named_claims(pod), *_ephemeral_claims(pod)))) if pod.spec.volumes else ()


def named_claims(pod: Pod) -> tuple[str, ...]:
    """Return the claims that a pod mounts by name. VolumeZone and VolumeRestrictions look at these only."""
    if not pod.spec.volumes:
        return ()
    namespace = pod.metadata.namespace or "default"
    return tuple(f"{namespace}/{v.persistentVolumeClaim.claimName}" for v in pod.spec.volumes if v.persistentVolumeClaim is not None)


def _ephemeral_claims(pod: Pod) -> tuple[str, ...]:
    namespace = pod.metadata.namespace or "default"
    return tuple(
        f"{namespace}/{pod.metadata.name}-{v.name}"
        for v in pod.spec.volumes or ()
        if v.persistentVolumeClaim is None and v.ephemeral is not None
    )


def required_terms(pod: Pod, kind: str) -> list[PodAffinityTerm]:
    """Return the required terms of ``podAffinity`` or ``podAntiAffinity``; the RequiredDuringExecution variant schedules alike."""
    affinity = pod.spec.affinity
    part = getattr(affinity, kind) if affinity is not None else None
    if part is None:
        return []
    return [
        *(part.requiredDuringSchedulingIgnoredDuringExecution or ()),
        *(part.requiredDuringSchedulingRequiredDuringExecution or ()),
    ]


def preferred_terms(pod: Pod, kind: str) -> list[WeightedPodAffinityTerm]:
    """Return the preferred terms of ``podAffinity`` or ``podAntiAffinity``."""
    affinity = pod.spec.affinity
    part = getattr(affinity, kind) if affinity is not None else None
    return list(part.preferredDuringSchedulingIgnoredDuringExecution or ()) if part is not None else []


def affinity_terms(pod: Pod, kind: str) -> list[tuple[PodAffinityTerm, bool]]:
    """Return the terms of ``podAffinity`` or ``podAntiAffinity``, each with whether it is required; those that are come first."""
    preferred = ((weighted.podAffinityTerm, False) for weighted in preferred_terms(pod, kind))
    return [*((term, True) for term in required_terms(pod, kind)), *preferred]


def host_ports(spec: PodSpec) -> frozenset[Port]:
    """Return the host ports of app containers and sidecars; ordinary init containers' ports do not count."""
    containers = [*(spec.containers or ()), *(c for c in spec.initContainers or () if c.restartPolicy == "Always")]
    return frozenset(
        ("*" if p.hostIP in (None, "", "0.0.0.0") else p.hostIP or "*", p.protocol or "TCP", p.hostPort)
        for c in containers
        for p in c.ports or ()
        if p.hostPort
    )


def required_features(spec: PodSpec) -> tuple[str, ...]:
    """Return the names of kubelet features that a node has to declare for a pod, sorted.

    Source: k8s.io/component-helpers/nodedeclaredfeatures/features, InferForScheduling.
    """
    found = []
    rules = (rule for c in (*(spec.containers or ()), *(spec.initContainers or ())) for rule in c.restartPolicyRules or ())
    if any(rule.action == "RestartAllContainers" for rule in rules):
        found.append("RestartAllContainersOnContainerExits")
    if spec.hostNetwork and spec.hostUsers is False:
        found.append("UserNamespacesHostNetworkSupport")
    return tuple(found)


def operating_system(node: Node) -> str | None:
    """Return the operating system of a node's kubelet, None if neither its status nor its label says it."""
    info = node.status.nodeInfo if node.status is not None else None
    return (info.operatingSystem if info is not None else None) or (node.metadata.labels or {}).get(OS_LABEL) or None


def image_names(pod: Pod) -> tuple[str, ...]:
    """Return the images of a pod's containers and image volumes, sorted; one with neither tag nor digest is ``:latest``."""
    spec = pod.spec
    found = [container.image for container in (*(spec.initContainers or ()), *(spec.containers or ()))]
    found += [volume.image.reference for volume in spec.volumes or () if volume.image is not None]
    return tuple(sorted(name if name.rfind(":") > name.rfind("/") else f"{name}:latest" for name in found if name))


# --- the quality-of-service class: pkg/apis/core/v1/helper/qos/qos.go (GetPodQOS, ComputePodQOS) ------------------------------------------


def qos_class(pod: Pod) -> str:
    """``Guaranteed``, ``Burstable`` or ``BestEffort``: what the status says, else by the resources of the spec.

    Only cpu and memory count, of app containers, sidecars and init containers alike; pod-level resources, where set, decide alone.

    Raises:
        QuantityError: a malformed cpu or memory quantity.
    """
    if pod.status is not None and pod.status.qosClass:
        return pod.status.qosClass
    if pod.spec.resources is not None:
        found = {_class(_amounts(pod.spec.resources.requests), _amounts(pod.spec.resources.limits))}
    else:
        found = set(_container_classes(pod.spec))
    # Containers that differ among themselves are neither all guaranteed nor all without any claim.
    return found.pop() if len(found) == 1 else BURSTABLE if found else BEST_EFFORT


def _container_classes(spec: PodSpec) -> Iterator[str]:
    for container in (*(spec.initContainers or ()), *(spec.containers or ())):
        resources = container.resources
        limits = _amounts(resources.limits if resources else None)
        requests = _amounts(resources.requests if resources else None)
        # A container's request defaults to its limit when the pod is stored: no change for a pod that has been.
        yield _class({**limits, **requests}, limits)


def _amounts(resources: ResourceList | None) -> dict[str, Fraction]:
    return {name: quantity.milli_round(quantity.parse(resources[name])) for name in _COUNTED if resources and name in resources}


def _class(requests: dict[str, Fraction], limits: dict[str, Fraction]) -> str:
    """Of one set of requirements. An amount of zero is the same as none."""
    if not any(requests.values()) and not any(limits.values()):
        return BEST_EFFORT
    if all(limits.get(name) and requests.get(name) == limits[name] for name in _COUNTED):
        return GUARANTEED
    return BURSTABLE
