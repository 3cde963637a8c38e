"""Redaction of API objects for a snapshot: by default only the fields that placement reads are kept.

An object is decoded into the types of :mod:`kubestow.models.kube.objects`, which skip unknown fields, and encoded again. So only declared
fields survive: no environment, images, commands, probes or mounts of containers, no content of volumes, no managed fields, and little of
the status. Names, labels, and the annotations in :data:`READ` stay, because rules read them. Among these, names of secrets and addresses
are removed as well (:func:`_conceal`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final

import msgspec

from kubestow.live import redact_custom
from kubestow.models.cluster.storage import migrated_volumes
from kubestow.models.custom_workloads import table
from kubestow.models.kube import device_objects, kinds, objects, storage_objects, workload_objects
from kubestow.models.kube.closed_nodes import CLOSED_BY
from kubestow.models.numa.nri_annotations import BALLOON, FALSE, NO_HINTS, TRUE
from kubestow.models.snapshot.affinity_keys import AFFINITY, ANTI_AFFINITY, PREFIXES, meant
from kubestow.models.snapshot.api_types import Unread
from kubestow.models.snapshot.decode import JSON_ERRORS, DocumentReader, identity
from kubestow.models.snapshot.interning import is_of_node_policy
from kubestow.models.snapshot.unknown_fields import FieldCheck, NotUnderstood
from kubestow.models.workloads.template import DIGESTS, annotation_digests, written_digests

_encode: Final = msgspec.json.Encoder().encode

#: Annotations whose values placement reads.
READ: Final = frozenset(
    {
        *(
            f"kubestow.dev/{key}"
            for key in (
                "anywhere",
                "execution-grace-seconds",
                "gang",
                "min-member",
                "move-cost",
                "placed-on",
                "preferred-topology",
                "replicas",
                "required-topology",
            )
        ),
        *(prefix + kind for prefix in PREFIXES for kind in (AFFINITY, ANTI_AFFINITY)),
        CLOSED_BY,
        "controller.kubernetes.io/pod-deletion-cost",
        "resource.kubernetes.io/extended-resource-claim",
        *(f"nvidia.com/{key}" for key in ("use-gputype", "nouse-gputype", "use-gpuuuid", "nouse-gpuuuid")),
        *("hami.io/node-nvidia-register", "hami.io/vgpu-devices-allocated", "volcano.sh/node-vgpu-register", "volcano.sh/vgpu-ids-new"),
        *("gpu-fraction", "gpu-fraction-num-devices", "gpu-memory"),
        "cluster-autoscaler.kubernetes.io/safe-to-evict",
        "cluster-autoscaler.kubernetes.io/scale-down-disabled",
        "karpenter.sh/do-not-disrupt",
        *(f"helm.sh/{key}" for key in ("hook", "hook-weight", "hook-delete-policy")),
        "kubernetes.io/config.source",
        "openshift.io/node-selector",
        *(f"scheduler.alpha.kubernetes.io/{key}" for key in ("defaultTolerations", "node-selector", "tolerationsWhitelist")),
        "scheduling.k8s.io/group-name",
        "scheduling.volcano.sh/group-name",
        "volcano.sh/network-topology-mode",
        "volcano.sh/network-topology-highest-tier",
        "scheduling.x-k8s.io/pod-group",
        "kueue.x-k8s.io/pod-group-name",
        "kueue.x-k8s.io/pod-group-total-count",
        "kueue.x-k8s.io/podset",
        "kueue.x-k8s.io/podset-group-name",
        "kueue.x-k8s.io/podset-preferred-topology",
        "kueue.x-k8s.io/podset-required-topology",
        "kueue.x-k8s.io/role-hash",
        "kueue.x-k8s.io/workload",
        "storage.alpha.kubernetes.io/migrated-plugins",
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
        "volume.beta.kubernetes.io/storage-class",
        "volume.kubernetes.io/selected-node",
    }
)
#: Prefix of annotations for tags of containers, whose names contain the container's name.
_READ_PREFIX: Final = "kubestow.dev/tags."
#: Annotations whose value does not matter, only their presence.
PRESENT: Final = frozenset(
    {
        "descheduler.alpha.kubernetes.io/evict",
        "descheduler.alpha.kubernetes.io/prefer-no-eviction",
        "descheduler.alpha.kubernetes.io/request-evict-only",
        "kubernetes.io/config.mirror",
        "kueue.x-k8s.io/podset-slice-required-topology",
        "kueue.x-k8s.io/podset-slice-size",
    }
)
#: Prefixes of annotations that are kept if their value is a number: a policy may use one as the cost of a move.
_NUMBERED: Final = ("kubestow.dev/", "controller.kubernetes.io/")
_NUMBER: Final = re.compile(r"[0-9]{1,7}")


class _ListMeta(msgspec.Struct):
    next: str | None = msgspec.field(default=None, name="continue")


class _List(msgspec.Struct):
    kind: str
    items: list[msgspec.Raw] | None
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


class _RedactedObject(msgspec.Struct):
    kind: str
    metadata: objects.ObjectMeta


_LIST: Final = msgspec.json.Decoder(_List)
_OBJECT: Final = msgspec.json.Decoder(_RedactedObject)


class Keeper:
    """Redaction of the API server's answers about one kind, into JSON of single objects.

    Attributes:
        problems: Objects that cannot be read and are left out, one line each.
        not_understood: Fields of later Kubernetes versions in pods, which are dropped.
    """

    def __init__(self, kind: kinds.Kind, api_version: str, *, redact: bool = True) -> None:
        self.problems: list[str] = []
        self.not_understood = NotUnderstood()
        self._fields = FieldCheck(None, self.not_understood)
        self._kind = kind
        self._type = {"apiVersion": api_version, "kind": kind.name}
        self._head = _encode(self._type)[:-1] + b","
        self._redact = redact
        self._found: list[bytes] = []

    def page(self, data: bytes) -> tuple[list[bytes], str]:
        """Return the objects of a page, and the token for the next one; empty on the last page.

        Raises:
            ValueError: the data is not a list.
        """
        page: _List = _decoded(_LIST, data, "list")
        if not page.kind.endswith("List"):
            raise ValueError(f"got a {page.kind[:60]}, expected a list of {self._kind.name} objects")
        return self._objects(data, page.items or []), page.metadata.next or ""

    def single(self, data: bytes) -> list[bytes]:
        """Return the object in the answer to a request by name.

        Raises:
            ValueError: the data is not such an object.
        """
        found: _RedactedObject = _decoded(_OBJECT, data, "object")
        if found.kind != self._kind.name:
            raise ValueError(f"got a {found.kind[:60]}, expected a {self._kind.name}")
        return self._objects(data, [msgspec.Raw(data)])

    def _objects(self, data: bytes, items: list[msgspec.Raw]) -> list[bytes]:
        self._found = []
        if self._redact:
            DocumentReader(self, fields=self._fields).json(data, "")
        else:
            for item in items:
                self._whole(item)
        return self._found

    def _whole(self, item: msgspec.Raw) -> None:
        """Keep an object as ``kubectl get -o json`` shows it, without managed fields."""
        try:
            value = msgspec.json.decode(item)
            metadata = value["metadata"]
            metadata.pop("managedFields", None)
            # Items in a list of a built-in kind lack apiVersion and kind.
            self._found.append(_encode({**self._type, **value}))
        except (*JSON_ERRORS, TypeError, KeyError, AttributeError):
            self.problem("", self._kind.name, "not an object with metadata")

    # --- what the reader finds --------------------------------------------------------------------------------------

    def accept(self, kind: kinds.Kind, obj: Any, source: str, *, known: bool = False) -> bool:
        """Keep an object of the kind. Return False, because the changed object must not be shared with others."""
        if kind.name != self._kind.name:
            self._refuse(kind.name)
            return False
        digests = _template_digests(obj)
        _conceal(obj)
        if digests is not None:
            obj.metadata.annotations = {**(obj.metadata.annotations or {}), DIGESTS: digests}
        if isinstance(obj, workload_objects.PodGroup):
            obj.apiVersion = None  # already in the head
        self._found.append(self._head + _encode(obj)[1:])
        return False

    def listed(self, metadata: object) -> None:
        """Ignore the metadata of lists."""

    def stand_in(self, ref: str, kind: str, metadata: objects.ObjectMeta) -> None:
        """Return no name: stored objects have one."""

    def ignore(self, unread: Unread) -> tuple[()]:
        """Keep a custom workload of the kind. Record an object of another kind as a problem."""
        entry = table.find(self._type["apiVersion"], unread.kind) if unread.kind == self._kind.name else None
        if entry is None:
            self._refuse(unread.kind)
            return ()
        value = unread.value()
        try:
            self._found.append(_encode({**self._type, **redact_custom.redacted(entry, value, _conceal)}))
        except ValueError as error:
            self.problem("", identity(unread.kind, value.get("metadata")), str(error))
        return ()

    def _refuse(self, kind: str) -> None:
        self.problem("", kind, f"expected a {self._kind.name}")

    def problem(self, source: str, where: str, message: str) -> None:
        """Record an invalid object."""
        self.problems.append(f"{where}: left out: {message}" if where else f"left out: {message}")


def _decoded(decoder: msgspec.json.Decoder[Any], data: bytes, what: str) -> Any:
    try:
        return decoder.decode(data)
    except JSON_ERRORS as error:
        raise ValueError(f"expected an API {what}: {error}") from None


def _template_digests(obj: Any) -> str | None:
    """Return digests of a workload template's annotations, to detect changes; None for other kinds."""
    found = kinds.pod_template(obj)
    return None if found is None else written_digests(annotation_digests(found[1]))


def _conceal(obj: Any) -> None:
    """Remove the parts that the types keep although nothing reads them.

    * Annotations may contain anything.
    * Volume handles of network storage contain servers and shares. Only their equality matters, so a hash replaces them.
    * CSI drivers may use addresses as node ids.
    * Images reveal the software of a cluster, and no hard rule reads them.
    * Pod volumes without a known source are mostly secrets, and have their names.
    """
    for metadata in _metadata(obj):
        metadata.annotations = kept_annotations(metadata.annotations)
    template = kinds.pod_template(obj)
    spec = template[1].spec if template is not None else getattr(obj, "spec", None)
    if isinstance(obj, objects.Node) and obj.status is not None:
        obj.status.images = None
    if isinstance(spec, objects.PodSpec):
        spec.serviceAccountName = None
        for part in (*(spec.initContainers or ()), *(spec.containers or ()), *(spec.volumes or ())):
            part.image = None
    if isinstance(spec, objects.PodSpec) and spec.volumes:
        spec.volumes = [volume for volume in spec.volumes if volume != objects.Volume(volume.name)] or None
    elif isinstance(spec, storage_objects.PersistentVolumeSpec):
        _hash_handles(spec)
    elif isinstance(spec, storage_objects.CSINodeSpec):
        for driver in spec.drivers or ():
            driver.nodeID = None


def kept_annotations(annotations: dict[str, str] | None) -> dict[str, str] | None:
    """Return the annotations that placement reads; values that are not read become empty."""
    kept: dict[str, str] = {}
    for key, value in (annotations or {}).items():
        if key in READ or key.startswith(_READ_PREFIX) or (key.startswith(_NUMBERED) and _NUMBER.fullmatch(value)):
            kept[key] = value
        elif is_of_node_policy(key) or meant(key) is not None:
            kept[key] = value if key.partition("/")[0] == BALLOON or value in (*TRUE, *FALSE, NO_HINTS) else ""
        elif key in PRESENT:
            kept[key] = ""
    return kept or None


def _metadata(obj: Any) -> Iterator[objects.ObjectMeta]:
    """Yield all metadata in an object: its own, that of its template, and that of claims created for its pods."""
    yield obj.metadata
    spec = getattr(obj, "spec", None)
    claims = list(getattr(spec, "volumeClaimTemplates", None) or ())
    if isinstance(obj, device_objects.ResourceClaimTemplate) and spec is not None:
        yield from _given(spec.metadata)
    if isinstance(obj, workload_objects.CronJob) and spec is not None and spec.jobTemplate is not None:
        yield from _given(spec.jobTemplate.metadata)
    found = kinds.pod_template(obj)
    if found is not None:
        yield from _given(found[1].metadata)
        spec = found[1].spec
    if isinstance(spec, objects.PodSpec):
        claims += [v.ephemeral.volumeClaimTemplate for v in spec.volumes or () if v.ephemeral and v.ephemeral.volumeClaimTemplate]
    for claim in claims:
        yield from _given(claim.metadata)


def _given(metadata: objects.ObjectMeta | None) -> Iterator[objects.ObjectMeta]:
    if metadata is not None:
        yield metadata


def _hash_handles(spec: storage_objects.PersistentVolumeSpec) -> None:
    """Replace the identity of a volume (CSI or in-tree) by a digest that is equal for equal volumes."""
    if spec.csi is not None:
        spec.csi.volumeHandle = _digest(spec.csi.volumeHandle)
    if spec.awsElasticBlockStore is not None:
        found = migrated_volumes.aws_volume(spec.awsElasticBlockStore.volumeID or "")
        spec.awsElasticBlockStore.volumeID = "aws://" if found is None else _digest(found)
    if spec.gcePersistentDisk is not None:
        spec.gcePersistentDisk.pdName = _digest(spec.gcePersistentDisk.pdName or "")
    if spec.azureDisk is not None:
        spec.azureDisk.diskURI = _digest(spec.azureDisk.diskURI or "")
    for source in (spec.cinder, spec.portworxVolume):
        if source is not None:
            source.volumeID = _digest(source.volumeID or "")


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
