"""Equal parts of pods kept once: replicas differ in little more than name and node, and a large cluster is mostly replicas."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final, TypeVar

import msgspec

from models.kube import defaults, objects
from models.kube.feature_gates import FeatureGates
from models.kube.validation import pods as validation

_T = TypeVar("_T")

#: Annotations that placement reads; the rest (last-applied configurations, CNI states …) is dropped.
ANNOTATIONS: Final = (
    "gpu-fraction",
    "gpu-memory",
    "hami.io/node-nvidia-register",
    "hami.io/vgpu-devices-allocated",
    "nvidia.com/nouse-gpu",
    "nvidia.com/use-gpu",
    "volcano.sh/node-vgpu-register",
    "volcano.sh/vgpu-ids-new",
    "controller.kubernetes.io/",
    "cri-resource-manager.intel.com/",
    "resource-policy.nri.io/",
    "kubestow.dev/",
    "kubernetes.io/config.",
    "cluster-autoscaler.kubernetes.io/",
    "descheduler.alpha.kubernetes.io/",
    "karpenter.sh/",
    "resource.kubernetes.io/extended-resource-claim",
    "scheduling.k8s.io/",
    "scheduling.volcano.sh/",
    "volcano.sh/network-topology-",
    "scheduling.x-k8s.io/",
    "kueue.x-k8s.io/",
    "volume.kubernetes.io/",
    "volume.beta.kubernetes.io/",
    "pv.kubernetes.io/",
    "storageclass.kubernetes.io/",
    "storageclass.beta.kubernetes.io/",
    "topology.",
)


#: Bytes of the hash that stands for a longer text: pods that all differ would else keep a copy of everything.
_DIGEST: Final = 32


def trim(metadata: objects.ObjectMeta) -> None:
    """Drop the annotations that nothing here reads."""
    if metadata.annotations:
        metadata.annotations = {k: v for k, v in metadata.annotations.items() if k.startswith(ANNOTATIONS)} or None


class Pool:
    """Shares the parts of pods. Shared parts must not be changed: they are everything below ``metadata`` and ``spec``, and ``status``.

    ``gates``: of the API server that is to take the pods, None if one has them.
    """

    def __init__(self, gates: FeatureGates | None = None) -> None:
        self._check_spec: Callable[[objects.PodSpec], list[str]] = functools.partial(validation.spec_problems, gates=gates)
        self._parts: dict[tuple[str, bytes], tuple[Any, list[str]]] = {}
        self._texts: dict[str, str] = {}
        self._encode = msgspec.json.Encoder().encode

    def pod(self, pod: objects.Pod, *, validate: bool) -> list[str]:
        """Default a pod (all but what other objects decide), share its parts, and tell its problems.

        Equal specs are checked and defaulted once: a pod's node, volumes and own names are what replicas differ in.
        """
        metadata, spec = pod.metadata, pod.spec
        metadata.labels = self._shared("labels", metadata.labels)
        metadata.annotations = self._shared("labels", metadata.annotations)
        metadata.ownerReferences = self._shared("owners", metadata.ownerReferences)
        metadata.namespace = self._text(metadata.namespace)
        metadata.creationTimestamp = self._text(metadata.creationTimestamp)

        problems: list[str] = []
        node, volumes = self._text(spec.nodeName), spec.volumes
        if volumes and any(v.ephemeral is not None for v in volumes):
            problems = validation.volume_problems(volumes) if validate else []
            defaults.volumes(volumes)
        affinity = spec.affinity  # apart: a DaemonSet's pods differ in it, as each names its node there
        if affinity is not None:
            affinity, found = self._examined("affinity", affinity, validation.affinity_problems if validate else _nothing)
            problems = problems + found
        spec.nodeName = spec.volumes = spec.affinity = None
        shared, found = self._examined("spec", spec, self._check_spec if validate else _nothing, self._spec)
        pod.spec = copy.copy(shared)
        pod.spec.nodeName = node
        pod.spec.affinity = affinity
        pod.spec.volumes = mattering(volumes)
        problems = problems + found
        pod.containerIds = None
        if pod.status is not None:
            pod.containerIds = _take_ids(pod.status) if node else None
            status, found = self._examined("status", pod.status, validation.status_problems if validate else _nothing, self._status)
            pod.status = status
            problems = problems + found
        return problems

    def _spec(self, spec: objects.PodSpec) -> None:
        """Default a spec that is new; even pods of different workloads mostly tolerate the same taints."""
        defaults.pod_spec(spec)
        spec.tolerations = self._shared("tolerations", spec.tolerations)
        for container in spec.containers or ():
            container.resources = self._shared("resources", container.resources)
            container.ports = self._shared("ports", container.ports)

    def _status(self, status: objects.PodStatus) -> None:
        status.conditions = self._shared("conditions", status.conditions)
        for container in status.containerStatuses or ():
            container.resources = self._shared("resources", container.resources)

    def _examined(
        self, tag: str, part: _T, check: Callable[[_T], list[str]], settle: Callable[[_T], None] | None = None
    ) -> tuple[_T, list[str]]:
        """The shared equal of a part, checked and then settled when first seen, with its problems. ``tag`` tells kinds of parts apart."""
        try:
            text = self._encode(part)
        except (OverflowError, ValueError):  # numbers beyond 64 bits, lone surrogates: not worth sharing
            key = None
        else:
            key = (tag, text if len(text) <= _DIGEST else blake2b(text, digest_size=_DIGEST).digest())
        found = self._parts.get(key) if key is not None else None
        if found is None:
            found = part, check(part)
            if settle is not None:
                settle(part)
            if key is not None:
                self._parts[key] = found
        return found

    def _shared(self, tag: str, part: _T) -> _T:
        return part if part is None else self._examined(tag, part, _nothing)[0]

    def _text(self, text: str | None) -> str | None:
        return text if text is None else self._texts.setdefault(text, text)


def _take_ids(status: objects.PodStatus) -> tuple[str, ...] | None:
    """Take the ids out of a status; ``name=id`` of the containers that have one. They are written ``containerd://3f9c…``."""
    found = []
    for container in (*(status.containerStatuses or ()), *(status.initContainerStatuses or ())):
        if container.containerID:
            found.append(f"{container.name}={container.containerID.rpartition('//')[2]}")
            container.containerID = None
    return tuple(found) or None


def mattering(volumes: list[objects.Volume] | None) -> list[objects.Volume] | None:
    """Return the volumes with a source that is read (config maps, secrets and tokens have none)."""
    return [volume for volume in volumes or () if volume != objects.Volume(volume.name)] or None


def _nothing(part: object) -> list[str]:
    return []
