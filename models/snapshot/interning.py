"""Sharing of equal parts of pods. Replicas differ in little more than name and node."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final, TypeVar

import msgspec

from kubestow.models.kube import defaults, objects
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.validation import pods as validation
from kubestow.models.snapshot import affinity_keys

_T = TypeVar("_T")

#: Annotations that placement reads. Others (last-applied configurations, CNI states …) are dropped.
ANNOTATIONS: Final = (
    "gpu-fraction",
    "gpu-memory",
    "helm.sh/hook",
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
    "scheduler.alpha.kubernetes.io/defaultTolerations",
    "scheduler.alpha.kubernetes.io/node-selector",
    "scheduler.alpha.kubernetes.io/tolerationsWhitelist",
    "openshift.io/node-selector",
    "scheduling.k8s.io/",
    "scheduling.volcano.sh/",
    "volcano.sh/network-topology-",
    "scheduling.x-k8s.io/",
    "kueue.x-k8s.io/",
    "volume.kubernetes.io/",
    "volume.beta.kubernetes.io/",
    "pv.kubernetes.io/",
    "storage.alpha.kubernetes.io/migrated-plugins",
    "storageclass.kubernetes.io/",
    "storageclass.beta.kubernetes.io/",
    "topology.",
)
#: Domains of nri-plugins and its predecessor, with their subdomains. Annotations that are not honoured are
#: reported.
_NODE_POLICIES: Final = ("nri.io", "cri-resource-manager.intel.com")

#: Specs that are tried before the share of repeated ones counts.
_MIN_TRIED_SPECS: Final = 10_000
#: Admission's name for the volume of a pod's token, and the node in a text; no other field is called nodeName.
_TOKEN: Final = b"kube-api-access-"
_TOKENS: Final = re.compile(rb"kube-api-access-[a-z0-9]{5}")
_NODE_NAME: Final = b"nodeName"
_NODE: Final = re.compile(rb'"nodeName"\s*:\s*"([a-z0-9.-]*)"')
#: Bytes of the hash that replaces a longer text. Otherwise pods that all differ would keep a copy of everything.
_DIGEST_BYTES: Final = 32


def is_of_node_policy(key: str) -> bool:
    """Return True for annotations of nri-plugins or its predecessor, misspelt ones included."""
    domain = key.partition("/")[0]
    return domain in _NODE_POLICIES or domain.endswith(tuple(f".{each}" for each in _NODE_POLICIES))


def is_read(key: str) -> bool:
    """Return True if an annotation is kept when a snapshot is read."""
    return key.startswith(ANNOTATIONS) or is_of_node_policy(key) or affinity_keys.meant(key) is not None


def trim(metadata: objects.ObjectMeta) -> None:
    """Drop the annotations that kubestow does not read."""
    if metadata.annotations:
        metadata.annotations = {k: v for k, v in metadata.annotations.items() if is_read(k)} or None


class Specs:
    """Pod specs by the text they were read from, so that specs of replicas are decoded once.

    Such texts differ in their node and in the name of their token's volume, which nothing reads. If few specs
    repeat, no more are kept.

    Attributes:
        lookups: Number of lookups.
        repeated: Number of lookups that found a spec.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, objects.PodSpec] = {}
        self.lookups = self.repeated = 0

    def find(self, text: bytes) -> tuple[objects.PodSpec | None, bytes | None]:
        """Look up the spec of a text.

        Returns:
            The checked and settled spec, None if it is new; and the key for :meth:`keep`, None if it cannot
            repeat.
        """
        if self.lookups >= _MIN_TRIED_SPECS and self.repeated < self.lookups // 2:
            return None, None
        self.lookups += 1
        node, key = _without_node(text)
        known = self._known.get(key)
        if known is None:
            return None, key
        self.repeated += 1
        return msgspec.structs.replace(known, nodeName=known.nodeName if node is None else node), key

    def keep(self, text: bytes, key: bytes, spec: objects.PodSpec) -> None:
        """Keep a spec that was checked and settled without problems."""
        if (key is not text and _without_node(text)[0] != spec.nodeName) or (_TOKEN in text and _TOKEN in msgspec.json.encode(spec)):
            return  # the removed part, or an equal text, is read somewhere
        self._known[key] = spec


def _without_node(text: bytes) -> tuple[str | None, bytes]:
    """Return the node in the text of a spec, and the text without it and without the names of token volumes."""
    node = _NODE.search(text) if text.count(_NODE_NAME) == 1 and b"\\u" not in text else None
    if node is not None:
        text = text[: node.start(1)] + text[node.end(1) :]
    if _TOKEN in text:
        text = _TOKENS.sub(_TOKEN, text)
    return None if node is None else node[1].decode(), text


class PodPool:
    """Shares equal parts of pods.

    Parts are everything below ``metadata`` and ``spec``, and ``status``. Shared parts must not be changed.

    Args:
        gates: Feature gates of the API server that is to accept the pods; None if one has accepted them.
    """

    def __init__(self, gates: FeatureGates | None = None) -> None:
        self._check_spec: Callable[[objects.PodSpec], list[str]] = functools.partial(validation.spec_problems, gates=gates)
        self._parts: dict[tuple[str, bytes], tuple[Any, list[str]]] = {}
        self._texts: dict[str, str] = {}
        self._last: dict[str, Any] = {}
        self._encode = msgspec.json.Encoder().encode

    def pod(self, pod: objects.Pod, *, validate: bool, known: bool = False) -> list[str]:
        """Default a pod (except for defaults from other objects), share its parts, and return its problems.

        Equal specs are checked and defaulted once. Replicas differ in node, volumes and names.

        Args:
            known: The spec has been through this before.
        """
        metadata, spec = pod.metadata, pod.spec
        metadata.labels = self._as_before("labels", metadata.labels)
        metadata.annotations = self._as_before("annotations", metadata.annotations)
        metadata.ownerReferences = self._as_before("owners", metadata.ownerReferences)
        metadata.namespace = self._text(metadata.namespace)
        metadata.creationTimestamp = self._text(metadata.creationTimestamp)

        node = self._text(spec.nodeName)
        problems = self._settled(pod, node, validate=validate) if not known else []
        pod.containerIds = None
        if pod.status is not None:
            pod.containerIds = _take_ids(pod.status) if node else None
            status, status_problems = self._examined(
                "status", pod.status, validation.status_problems if validate else _nothing, self._status
            )
            pod.status = status
            problems = problems + status_problems
        return problems

    def _settled(self, pod: objects.Pod, node: str | None, *, validate: bool) -> list[str]:
        """Share the parts of a pod's spec, and return its problems."""
        problems: list[str] = []
        spec, volumes = pod.spec, pod.spec.volumes
        if volumes and any(v.ephemeral is not None for v in volumes):
            problems = validation.volume_problems(volumes) if validate else []
            defaults.volumes(volumes)
        affinity = spec.affinity  # separate, because each pod of a DaemonSet names its node there
        if affinity is not None:
            affinity, part_problems = self._examined("affinity", affinity, validation.affinity_problems if validate else _nothing)
            problems = problems + part_problems
        spec.nodeName = spec.volumes = spec.affinity = None
        shared, part_problems = self._examined("spec", spec, self._check_spec if validate else _nothing, self._spec)
        pod.spec = copy.copy(shared)
        pod.spec.nodeName = node
        pod.spec.affinity = affinity
        pod.spec.volumes = mattering(volumes)
        return problems + part_problems

    def _spec(self, spec: objects.PodSpec) -> None:
        """Default a new spec. Even pods of different workloads mostly tolerate the same taints."""
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
        """Return the shared equal of a part with its problems. A new part is checked, then settled. ``tag``: kind of part."""
        try:
            text = self._encode(part)
        except (OverflowError, ValueError):  # numbers beyond 64 bits, lone surrogates: not worth sharing
            key = None
        else:
            key = (tag, text if len(text) <= _DIGEST_BYTES else blake2b(text, digest_size=_DIGEST_BYTES).digest())
        examined = self._parts.get(key) if key is not None else None
        if examined is None:
            examined = part, check(part)
            if settle is not None:
                settle(part)
            if key is not None:
                self._parts[key] = examined
        return examined

    def _as_before(self, tag: str, part: _T) -> _T:
        """Return the shared equal of a part, which mostly equals that of the previous pod."""
        if part is None:
            return part
        last: Any = self._last.get(tag)
        if part != last or (isinstance(part, dict) and [*part] != [*(last or ())]):
            last = self._last[tag] = self._shared(tag, part)
        same: _T = last
        return same

    def _shared(self, tag: str, part: _T) -> _T:
        return part if part is None else self._examined(tag, part, _nothing)[0]

    def _text(self, text: str | None) -> str | None:
        return text if text is None else self._texts.setdefault(text, text)


def _take_ids(status: objects.PodStatus) -> tuple[str, ...] | None:
    """Remove the ids from a status, and return ``name=id`` of the containers. Ids look like ``containerd://3f9c…``."""
    found = []
    for container in (*(status.containerStatuses or ()), *(status.initContainerStatuses or ())):
        if container.containerID:
            found.append(f"{container.name}={container.containerID.rpartition('//')[2]}")
            container.containerID = None
    return tuple(found) or None


def mattering(volumes: list[objects.Volume] | None) -> list[objects.Volume] | None:
    """Return the volumes whose source is read. Config maps, secrets and tokens have no such source."""
    return [volume for volume in volumes or () if volume != objects.Volume(volume.name)] or None


def _nothing(part: object) -> list[str]:
    return []
