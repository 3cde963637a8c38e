"""What tells one pod template from another, and the short texts that controllers make of it and of counters."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec

from models.kube import objects, quantity, workload_objects
from models.snapshot import interning
from models.workloads.ownership import HASH

#: k8s.io/apimachinery/pkg/util/rand: no vowels, nothing that looks like another character.
ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
#: k8s.io/apiserver/pkg/storage/names: what is left of a name before five random characters are added.
_BASE: Final = 58
_DEFAULT_SCHEDULER: Final = "default-scheduler"
_encoder: Final = msgspec.json.Encoder(order="deterministic")


def fingerprint(template: workload_objects.PodTemplateSpec) -> bytes:
    """Equal for templates that no rule can tell apart (images are left out), whether defaulted and normalised by an API server or not."""
    metadata = objects.ObjectMeta()
    if template.metadata is not None:
        metadata.labels = {k: v for k, v in (template.metadata.labels or {}).items() if k != HASH}
        metadata.annotations = dict(template.metadata.annotations or {})
        interning.trim(metadata)
    spec = copy.copy(template.spec) or objects.PodSpec()
    spec.schedulerName = None if spec.schedulerName == _DEFAULT_SCHEDULER else spec.schedulerName
    spec.serviceAccountName = None
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


def _number(*parts: bytes) -> int:
    return int.from_bytes(hashlib.sha256(b"\0".join(parts)).digest()[:8], "big")


def template_hash(template: workload_objects.PodTemplateSpec, salt: int = 0) -> str:
    """Return a revision's hash: the decimal digits of 32 bits in the safe alphabet, as rand.SafeEncodeString writes them. Not the number
    that Kubernetes computes, which takes in fields that are not read here."""
    return "".join(ALPHABET[ord(c) % len(ALPHABET)] for c in str(_number(fingerprint(template), b"%d" % salt) % 2**32))


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
