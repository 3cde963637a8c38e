"""Equal parts of pods kept once: replicas differ in little more than name and node, and a large cluster is mostly replicas."""

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

_T = TypeVar("_T")

#: Annotations that placement reads; the rest (last-applied configurations, CNI states …) is dropped.
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
#: Domains of nri-plugins and its predecessor, with all domains below them: the annotations that are not honoured are named.
_NODE_POLICIES: Final = ("nri.io", "cri-resource-manager.intel.com")

#: Specs that are looked at before it counts how many come again.
_TRIED: Final = 10_000
#: How admission names the volume of a pod's token, and where a text says the node; nothing else is called nodeName, in whatever writing.
_TOKEN: Final = b"kube-api-access-"
_TOKENS: Final = re.compile(rb"kube-api-access-[a-z0-9]{5}")
_NODE_NAME: Final = b"nodeName"
_NODE: Final = re.compile(rb'"nodeName"\s*:\s*"([a-z0-9.-]*)"')
#: Bytes of the hash that stands for a longer text: pods that all differ would else keep a copy of everything.
_DIGEST: Final = 32


def is_of_node_policy(key: str) -> bool:
    """Return True for annotations of nri-plugins or its predecessor, misspelt ones included."""
    domain = key.partition("/")[0]
    return domain in _NODE_POLICIES or domain.endswith(tuple(f".{each}" for each in _NODE_POLICIES))


def is_read(key: str) -> bool:
    """Return True if an annotation is kept when a snapshot is read."""
    return key.startswith(ANNOTATIONS) or is_of_node_policy(key)


def trim(metadata: objects.ObjectMeta) -> None:
    """Drop the annotations that nothing here reads."""
    if metadata.annotations:
        metadata.annotations = {k: v for k, v in metadata.annotations.items() if is_read(k)} or None


class Specs:
    """Specs of pods by the text they were read from: those of replicas differ in their node and in the name of their token's volume, which
    nothing reads, and are decoded once. Where hardly any comes again, no more are kept.

    ``seen``, ``met``: how many were asked for, and how many of them came again.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, objects.PodSpec] = {}
        self.seen = self.met = 0

    def find(self, text: bytes) -> tuple[objects.PodSpec | None, bytes | None]:
        """Return the spec of a text, checked and settled, None if it is new; and what to keep it under (:meth:`keep`), None where it cannot
        come again."""
        if self.seen >= _TRIED and self.met < self.seen // 2:
            return None, None
        self.seen += 1
        node, key = _told_apart(text)
        known = self._known.get(key)
        if known is None:
            return None, key
        self.met += 1
        return msgspec.structs.replace(known, nodeName=known.nodeName if node is None else node), key

    def keep(self, text: bytes, key: bytes, spec: objects.PodSpec) -> None:
        """Keep a spec that has been checked and settled without problems."""
        if (key is not text and _told_apart(text)[0] != spec.nodeName) or (_TOKEN in text and _TOKEN in msgspec.json.encode(spec)):
            return  # what is cut out of the text, or of one that is the same without it, is read somewhere
        self._known[key] = spec


def _told_apart(text: bytes) -> tuple[str | None, bytes]:
    """The node in the text of a spec, and the text without it and without the names of tokens' volumes."""
    node = _NODE.search(text) if text.count(_NODE_NAME) == 1 and b"\\u" not in text else None
    if node is not None:
        text = text[: node.start(1)] + text[node.end(1) :]
    if _TOKEN in text:
        text = _TOKENS.sub(_TOKEN, text)
    return None if node is None else node[1].decode(), text


class Pool:
    """Shares the parts of pods. Shared parts must not be changed: they are everything below ``metadata`` and ``spec``, and ``status``.

    ``gates``: of the API server that is to take the pods, None if one has them.
    """

    def __init__(self, gates: FeatureGates | None = None) -> None:
        self._check_spec: Callable[[objects.PodSpec], list[str]] = functools.partial(validation.spec_problems, gates=gates)
        self._parts: dict[tuple[str, bytes], tuple[Any, list[str]]] = {}
        self._texts: dict[str, str] = {}
        self._last: dict[str, Any] = {}
        self._encode = msgspec.json.Encoder().encode

    def pod(self, pod: objects.Pod, *, validate: bool, known: bool = False) -> list[str]:
        """Default a pod (all but what other objects decide), share its parts, and tell its problems. ``known``: its spec has been through
        this.

        Equal specs are checked and defaulted once: a pod's node, volumes and own names are what replicas differ in.
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
            status, found = self._examined("status", pod.status, validation.status_problems if validate else _nothing, self._status)
            pod.status = status
            problems = problems + found
        return problems

    def _settled(self, pod: objects.Pod, node: str | None, *, validate: bool) -> list[str]:
        """Share the parts of a pod's spec, and tell its problems."""
        problems: list[str] = []
        spec, volumes = pod.spec, pod.spec.volumes
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
        return problems + found

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

    def _as_before(self, tag: str, part: _T) -> _T:
        """The shared equal of texts, which mostly are those of the pod before."""
        if part is None:
            return part
        last: Any = self._last.get(tag)
        if part != last or (isinstance(part, dict) and [*part] != [*(last or ())]):
            last = self._last[tag] = self._shared(tag, part)
        found: _T = last
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
