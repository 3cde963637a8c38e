"""Comparison of pod templates, and the short hashes and suffixes that controllers generate."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from kubestow.models.kube import objects, quantity, workload_objects
from kubestow.models.snapshot import interning
from kubestow.models.workloads.ownership import HASH

#: k8s.io/apimachinery/pkg/util/rand: no vowels and no characters that look alike.
ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
#: k8s.io/apiserver/pkg/storage/names: characters of a name before five random characters are added.
_MAX_BASE_CHARACTERS: Final = 58
_DEFAULT_SCHEDULER: Final = "default-scheduler"
#: Fields of templates that are not compared. Captures omit them, or admission fills them in and no rule reads
#: them.
_NOT_COMPARED: Final = ("image", "serviceAccountName", "annotations", "securityContext")
_AMOUNTS: Final = ("requests", "limits", "overhead")
#: Maps with free keys and values.
_MAPS: Final = ("labels", "matchLabels", "nodeSelector")
#: Fields whose empty, false or 0 value differs from absence: selectors, sources of volumes, pointers of the API.
_KEPT_IF_EMPTY: Final = frozenset(
    {
        *("labelSelector", "namespaceSelector", "selector", "storageClassName", "hostUsers", "priority", "weight"),
        *("hostPath", "gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "cinder", "iscsi", "rbd"),
    }
)
#: The annotation of a captured workload with digests of its template's annotations, which are not captured.
DIGESTS: Final = "kubestow.dev/template-annotations"
_encoder: Final = msgspec.json.Encoder(order="deterministic")


def fingerprint(template: workload_objects.PodTemplateSpec) -> bytes:
    """Return bytes that are equal for templates whose placement-relevant fields are equal, with or without
    defaults.

    An API server adds defaults to stored objects and omits empty fields. Both forms have one fingerprint.
    Images and annotations that kubestow does not read do not count.
    """
    metadata = template.metadata or objects.ObjectMeta()
    read = {k: v for k, v in (metadata.annotations or {}).items() if interning.is_read(k)}
    return _encoder.encode((essence(template, (HASH,)), read))


def essence(template: workload_objects.PodTemplateSpec, generated: Collection[str]) -> dict[str, Any]:
    """Return the placement-relevant fields of a template as plain data.

    They exclude annotations, images, defaults and empty fields.

    Args:
        generated: Labels that a controller has added.
    """
    labels = (template.metadata.labels if template.metadata is not None else None) or {}
    spec = _essence(msgspec.to_builtins(template.spec or objects.PodSpec()))
    if spec.get("schedulerName") == _DEFAULT_SCHEDULER:
        del spec["schedulerName"]
    return {"labels": {key: value for key, value in labels.items() if key not in generated}, "spec": spec}


def _essence(value: dict[str, Any]) -> dict[str, Any]:
    reduced: dict[str, Any] = {}
    for key, below in value.items():
        if key in _NOT_COMPARED:
            continue
        if key in _AMOUNTS:
            below = _amounts(below)
        elif isinstance(below, dict) and key not in _MAPS:
            below = _essence(below)
        elif isinstance(below, list):
            below = [_essence(each) if isinstance(each, dict) else each for each in below]
            below = [each for each in below if each.keys() != {"name"}] if key == "volumes" else below
        if below or (key in _KEPT_IF_EMPTY and below is not None):
            reduced[key] = below
    return reduced


def _hash_text(template: workload_objects.PodTemplateSpec) -> bytes:
    """Return the bytes for the hash of a revision. They must not change, because names of pods depend on them."""
    metadata = objects.ObjectMeta()
    if template.metadata is not None:
        metadata.labels = {k: v for k, v in (template.metadata.labels or {}).items() if k != HASH}
        metadata.annotations = dict(template.metadata.annotations or {})
        interning.trim(metadata)
    spec = copy.copy(template.spec) or objects.PodSpec()
    spec.schedulerName = None if spec.schedulerName == _DEFAULT_SCHEDULER else spec.schedulerName
    spec.serviceAccountName = spec.securityContext = None
    spec.volumes = interning.mattering([msgspec.structs.replace(v, image=None) for v in spec.volumes or ()])
    spec.containers = [_plain(c) for c in spec.containers or ()]
    spec.initContainers = [_plain(c) for c in spec.initContainers or ()]
    spec.overhead = _amounts(spec.overhead)
    return _encoder.encode((metadata, spec))


def _plain(container: objects.Container) -> objects.Container:
    stated = container.resources or objects.ResourceRequirements()
    resources = objects.ResourceRequirements(_amounts(stated.requests), _amounts(stated.limits), stated.claims)
    return msgspec.structs.replace(container, image=None, resources=None if resources == objects.ResourceRequirements() else resources)


def _amounts(resources: Mapping[str, objects.RawQuantity] | None) -> objects.ResourceList | None:
    return {name: quantity.canonical(quantity.parse(raw)) for name, raw in (resources or {}).items()} or None


# --- annotations ------------------------------------------------------------------------------------------------------


def annotation_digests(template: workload_objects.PodTemplateSpec) -> dict[str, str]:
    """Return digests of the annotations of a template and of its ephemeral claims, by a digest of their names.

    Digests show whether two annotations are equal without revealing them.
    """
    volumes = (template.spec.volumes if template.spec is not None else None) or ()
    claims = [(v.name or "", v.ephemeral.volumeClaimTemplate) for v in volumes if v.ephemeral and v.ephemeral.volumeClaimTemplate]
    holders = [("", template.metadata), *((f"volumes/{name}", claim.metadata) for name, claim in claims)]
    return {
        annotation_digest(where, key): annotation_digest(where, key, value)
        for where, metadata in holders
        for key, value in ((metadata.annotations if metadata is not None else None) or {}).items()
    }


def annotation_digest(*parts: str) -> str:
    """Return a digest of 64 bits in hexadecimal digits."""
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=8, person=b"kubestow").hexdigest()


def written_digests(digests: Mapping[str, str]) -> str:
    """Return the value of the annotation :data:`DIGESTS`."""
    return ",".join(f"{key}={value}" for key, value in sorted(digests.items()))


def read_digests(text: str) -> dict[str, str]:
    """Return the digests in the value of the annotation :data:`DIGESTS`."""
    return dict(part.partition("=")[::2] for part in text.split(",") if part)


def _number(*parts: bytes) -> int:
    return int.from_bytes(hashlib.sha256(b"\0".join(parts)).digest()[:8], "big")


def template_hash(template: workload_objects.PodTemplateSpec, salt: int = 0) -> str:
    """Return a revision's hash: the decimal digits of 32 bits in the safe alphabet, as in rand.SafeEncodeString.

    The number differs from the one that Kubernetes computes, which includes fields that are not read here.
    """
    return "".join(ALPHABET[ord(c) % len(ALPHABET)] for c in str(_number(_hash_text(template), b"%d" % salt) % 2**32))


def minute(namespace: str, name: str) -> int:
    """Return eight digits for the scheduled minute in the name of a CronJob's next Job."""
    return 90_000_000 + _number(namespace.encode(), name.encode()) % 10_000_000


class PodNames:
    """Generator of names for new pods: deterministic and unused."""

    def __init__(self, used: set[str]) -> None:
        """Initialise with the ``namespace/name`` of all pods; the set grows."""
        self._taken = used
        self._next: dict[tuple[str, str], int] = {}

    def is_taken(self, namespace: str, name: str) -> bool:
        return f"{namespace}/{name}" in self._taken

    def take(self, namespace: str, name: str) -> str:
        """Reserve exactly this name."""
        self._taken.add(f"{namespace}/{name}")
        return name

    def suffixed(self, namespace: str, base: str) -> str:
        """Return ``base`` with five characters added. A long base is cut as by the API server."""
        counter = self._next.get((namespace, base), 0)
        while True:
            number, name = _number(namespace.encode(), base.encode(), b"%d" % counter), base[:_MAX_BASE_CHARACTERS]
            for _ in range(5):
                number, digit = divmod(number, len(ALPHABET))
                name += ALPHABET[digit]
            counter += 1
            if not self.is_taken(namespace, name):
                self._next[namespace, base] = counter
                return self.take(namespace, name)
