"""Placement-related parts of a pod's spec as written: mounted claims, affinity terms, host ports and quality-of-service class."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from kubestow.models.kube import quantity
from kubestow.models.kube.objects import Node, Pod, PodAffinityTerm, PodSpec, ResourceList, WeightedPodAffinityTerm

Port = tuple[str, str, int]  # hostIP ("" and 0.0.0.0 are "*"), protocol, port

#: The wildcard address of a host port.
ANY: Final = "*"

#: Provisioner of storage classes whose volumes are created by hand.
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
#: Annotation of a claim whose volume is being provisioned for a node.
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
#: Storage class of this project: volumes are provisioned wherever the pod goes and count against no limit.
ANYWHERE: Final = "kubestow.dev/anywhere"

#: Label that a kubelet sets on its node.
OS_LABEL: Final = "kubernetes.io/os"

GUARANTEED: Final = "Guaranteed"
BURSTABLE: Final = "Burstable"
BEST_EFFORT: Final = "BestEffort"
_COUNTED: Final = ("cpu", "memory")


def ports_clash(mine: frozenset[Port], others: frozenset[Port]) -> bool:
    """Return True if pods with these host ports cannot share a node."""
    return any(a[1:] == b[1:] and (a[0] == b[0] or ANY in (a[0], b[0])) for a in mine for b in others)


def claim_keys(pod: Pod) -> tuple[str, ...]:
    """Return ``namespace/name`` of the claims a pod mounts, in order and once; an ephemeral volume's claim is ``<pod>-<volume>``."""
    return tuple(dict.fromkeys((*named_claims(pod), *_ephemeral_claims(pod)))) if pod.spec.volumes else ()


def named_claims(pod: Pod) -> tuple[str, ...]:
    """Return the claims that a pod mounts by name. VolumeZone and VolumeRestrictions read only these."""
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
    """Return the required terms of ``podAffinity`` or ``podAntiAffinity``, both IgnoredDuringExecution and RequiredDuringExecution."""
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
    """Return the terms of ``podAffinity`` or ``podAntiAffinity``, each with True if it is required. Required terms come first."""
    preferred = ((weighted.podAffinityTerm, False) for weighted in preferred_terms(pod, kind))
    return [*((term, True) for term in required_terms(pod, kind)), *preferred]


def host_ports(spec: PodSpec) -> frozenset[Port]:
    """Return the host ports of app containers and sidecars. Ports of ordinary init containers do not count."""
    containers = [*(spec.containers or ()), *(c for c in spec.initContainers or () if c.restartPolicy == "Always")]
    return frozenset(
        ("*" if p.hostIP in (None, "", "0.0.0.0") else p.hostIP or "*", p.protocol or "TCP", p.hostPort)
        for c in containers
        for p in c.ports or ()
        if p.hostPort
    )


def required_features(spec: PodSpec) -> tuple[str, ...]:
    """Return the sorted names of kubelet features that a node must declare for a pod.

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
    """Return the operating system of a node's kubelet, from its status or its label, or None."""
    info = node.status.nodeInfo if node.status is not None else None
    return (info.operatingSystem if info is not None else None) or (node.metadata.labels or {}).get(OS_LABEL) or None


def image_names(pod: Pod) -> tuple[str, ...]:
    """Return the sorted images of a pod's containers and image volumes. An image without tag and digest is ``:latest``."""
    spec = pod.spec
    images = [container.image for container in (*(spec.initContainers or ()), *(spec.containers or ()))]
    images += [volume.image.reference for volume in spec.volumes or () if volume.image is not None]
    return tuple(sorted(name if name.rfind(":") > name.rfind("/") else f"{name}:latest" for name in images if name))


# --- the quality-of-service class: pkg/apis/core/v1/helper/qos/qos.go (GetPodQOS, ComputePodQOS) ------------------------------------------


def qos_class(pod: Pod) -> str:
    """Return ``Guaranteed``, ``Burstable`` or ``BestEffort``: from the status, or else from the resources of the spec.

    Only cpu and memory count, of app containers, sidecars and init containers alike. Pod-level resources, if set, decide alone.

    Raises:
        QuantityError: a malformed cpu or memory quantity.
    """
    if pod.status is not None and pod.status.qosClass:
        return pod.status.qosClass
    if pod.spec.resources is not None:
        qos_classes = {_class(_amounts(pod.spec.resources.requests), _amounts(pod.spec.resources.limits))}
    else:
        qos_classes = set(_container_classes(pod.spec))
        # Containers of different classes are neither all Guaranteed nor all BestEffort.
    return qos_classes.pop() if len(qos_classes) == 1 else BURSTABLE if qos_classes else BEST_EFFORT


def _container_classes(spec: PodSpec) -> Iterator[str]:
    for container in (*(spec.initContainers or ()), *(spec.containers or ())):
        resources = container.resources
        limits = _amounts(resources.limits if resources else None)
        requests = _amounts(resources.requests if resources else None)
        # A container's request defaults to its limit when the pod is stored, so stored pods do not change here.
        yield _class({**limits, **requests}, limits)


def _amounts(resources: ResourceList | None) -> dict[str, Fraction]:
    return {name: quantity.milli_round(quantity.parse(resources[name])) for name in _COUNTED if resources and name in resources}


def _class(requests: dict[str, Fraction], limits: dict[str, Fraction]) -> str:
    """Return the class of one set of requirements. An amount of zero counts as none."""
    if not any(requests.values()) and not any(limits.values()):
        return BEST_EFFORT
    if all(limits.get(name) and requests.get(name) == limits[name] for name in _COUNTED):
        return GUARANTEED
    return BURSTABLE


def preempts_never(pod: Pod) -> bool:
    """Return True if kube-scheduler evicts no other pod for this one."""
    return pod.spec.preemptionPolicy == "Never"
