"""Comparison of pod templates, and the short texts that controllers make of them and of counters."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from kubestow.models.kube import objects, quantity, workload_objects
from kubestow.models.snapshot import interning
from kubestow.models.workloads.ownership import HASH

#: k8s.io/apimachinery/pkg/util/rand: no vowels, nothing that looks like another character.
ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
#: k8s.io/apiserver/pkg/storage/names: what is left of a name before five random characters are added.
_BASE: Final = 58
_DEFAULT_SCHEDULER: Final = "default-scheduler"
#: Fields of templates that are not compared: captures leave them out, or admission fills them in and no rule reads them.
_NOT_COMPARED: Final = ("image", "serviceAccountName", "annotations", "securityContext")
_AMOUNTS: Final = ("requests", "limits", "overhead")
#: Maps whose keys and values are the author's.
_MAPS: Final = ("labels", "matchLabels", "nodeSelector")
#: Fields in which empty, false or 0 is another thing than nothing: selectors, sources of volumes, pointers of the API.
_MEANT_IF_EMPTY: Final = frozenset(
    {
        *("labelSelector", "namespaceSelector", "selector", "storageClassName", "hostUsers", "priority", "weight"),
        *("hostPath", "gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "cinder", "iscsi", "rbd"),
    }
)
#: The annotation of a captured workload with digests of the annotations of its template, which are not captured themselves.
DIGESTS: Final = "kubestow.dev/template-annotations"
_encoder: Final = msgspec.json.Encoder(order="deterministic")


def fingerprint(template: workload_objects.PodTemplateSpec) -> bytes:
    """Return bytes that are equal for templates of which placement reads the same, whoever has filled in defaults.

    An API server adds defaults to what it stores, and leaves out what is empty. Both forms have one fingerprint. Images do not count.
    Annotations that are not read do not count, either.
    """
    metadata = template.metadata or objects.ObjectMeta()
    read = {k: v for k, v in (metadata.annotations or {}).items() if interning.is_read(k)}
    return _encoder.encode((essence(template, (HASH,)), read))


def essence(template: workload_objects.PodTemplateSpec, generated: Collection[str]) -> dict[str, Any]:
    """Return plain data of what placement reads of a template, without annotations and images, and without defaults and empty fields.

    Args:
        generated: Labels that a controller has added.
    """
    labels = (template.metadata.labels if template.metadata is not None else None) or {}
    spec = _essence(msgspec.to_builtins(template.spec or objects.PodSpec()))
    if spec.get("schedulerName") == _DEFAULT_SCHEDULER:
        del spec["schedulerName"]
    return {"labels": {key: value for key, value in labels.items() if key not in generated}, "spec": spec}


def _essence(value: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
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
        if below or (key in _MEANT_IF_EMPTY and below is not None):
            found[key] = below
    return found


def _hash_text(template: workload_objects.PodTemplateSpec) -> bytes:
    """Return the bytes that the hash of a revision is made of. They stay as they are: the names of pods depend on them."""
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
    found = container.resources or objects.ResourceRequirements()
    resources = objects.ResourceRequirements(_amounts(found.requests), _amounts(found.limits), found.claims)
    return msgspec.structs.replace(container, image=None, resources=None if resources == objects.ResourceRequirements() else resources)


def _amounts(resources: Mapping[str, objects.RawQuantity] | None) -> objects.ResourceList | None:
    return {name: quantity.canonical(quantity.parse(raw)) for name, raw in (resources or {}).items()} or None


# --- annotations ------------------------------------------------------------------------------------------------------


def annotation_digests(template: workload_objects.PodTemplateSpec) -> dict[str, str]:
    """Return, by a digest of its name, a digest of each annotation of a template and of the claims that its pods make for themselves.

    Digests say whether two annotations are equal, and not what they are.
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
    """Return a digest of 64 bits, in hexadecimal digits."""
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
    """Return a revision's hash: the decimal digits of 32 bits in the safe alphabet, as rand.SafeEncodeString writes them. Not the number
    that Kubernetes computes, which takes in fields that are not read here."""
    return "".join(ALPHABET[ord(c) % len(ALPHABET)] for c in str(_number(_hash_text(template), b"%d" % salt) % 2**32))


def minute(namespace: str, name: str) -> int:
    """Eight digits for the scheduled minute in the name of a CronJob's next Job."""
    return 90_000_000 + _number(namespace.encode(), name.encode()) % 10_000_000


class Names:
    """Names of new pods: deterministic, and never taken."""

    def __init__(self, taken: set[str]) -> None:
        """``taken``: ``namespace/name`` of all pods; grows."""
        self._taken = taken
        self._next: dict[tuple[str, str], int] = {}

    def taken(self, namespace: str, name: str) -> bool:
        return f"{namespace}/{name}" in self._taken

    def take(self, namespace: str, name: str) -> str:
        """Reserve this very name."""
        self._taken.add(f"{namespace}/{name}")
        return name

    def suffixed(self, namespace: str, base: str) -> str:
        """``base`` and five characters; a long base is cut as the API server does."""
        counter = self._next.get((namespace, base), 0)
        while True:
            number, name = _number(namespace.encode(), base.encode(), b"%d" % counter), base[:_BASE]
            for _ in range(5):
                number, digit = divmod(number, len(ALPHABET))
                name += ALPHABET[digit]
            counter += 1
            if not self.taken(namespace, name):
                self._next[namespace, base] = counter
                return self.take(namespace, name)
