"""Validation of names and UIDs as in an API server. Names reach terminals, pages and files, so others are
rejected.

Source: k8s.io/apimachinery pkg/util/validation (IsDNS1123Subdomain, IsDNS1123Label) and pkg/api/validation/path
(IsValidPathSegmentName).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from kubestow.models.kube import kinds, objects, workload_objects
from kubestow.models.kube.lenient_decode import shorten

#: Names of most kinds, such as pods and nodes. Most have no dot and match the first pattern.
_PLAIN: Final = re.compile(r"[a-z0-9][-a-z0-9]*+(?<!-)\Z", re.ASCII)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]++(?:(?:-++|\.)[a-z0-9]++)*+\Z", re.ASCII)
#: Characters of a DNS subdomain.
_MAX_NAME_CHARACTERS: Final = 253
_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?\Z", re.ASCII)
#: API servers use UUIDs and kubelets hashes; other sources of snapshots use their own format.
_UID: Final = re.compile(r"[A-Za-z0-9.:_-]{1,128}\Z", re.ASCII)
#: Owners are of any kind, so their names need only be valid in a URL of the API.
_PATH: Final = re.compile(r"(?!\.{1,2}\Z)[^/%]{1,253}\Z")
_KIND: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}\Z", re.ASCII)
#: Kinds whose names are DNS labels.
_LABELS: Final = frozenset({"Namespace", "Service"})

_SUBDOMAIN_TEXT: Final = "expected a DNS subdomain: at most 253 lower-case letters, digits, '-' and '.', letters or digits at both ends"
LABEL_TEXT: Final = "expected a DNS label: at most 63 lower-case letters, digits and '-', letters or digits at both ends"
_UID_TEXT: Final = "expected a UUID, or up to 128 letters, digits, '.', ':', '_' and '-'"


def is_label(name: str) -> bool:
    """Return True if a name is a DNS label, like names of namespaces."""
    return _LABEL.match(name) is not None


def key_of(kind: kinds.Kind, obj: Any) -> str:
    """Return the key that identifies an object within its kind."""
    name = obj.metadata.name or ""
    if isinstance(obj, workload_objects.PodGroup):  # three kinds share this name
        return f"{obj.group}/{obj.metadata.namespace}/{name}"
    return f"{obj.metadata.namespace}/{name}" if kind.namespaced else name


class NameCheck:
    """Checks names and UIDs of objects. Texts that many objects share are checked once."""

    def __init__(self) -> None:
        self._namespaces: dict[str | None, bool] = {None: True}
        self._nodes: dict[str | None, bool] = {None: True, "": True}
        self._owners: dict[tuple[str, str, str | None], list[str]] = {}

    def problems(self, kind: kinds.Kind, obj: object) -> list[str]:
        """Return the problems of the names, UID and owner references of an object, each as ``path: problem, expectation``."""
        # every Struct of an API kind has metadata, but they share no base class
        meta: objects.ObjectMeta = obj.metadata  # type: ignore[attr-defined]
        found = []
        name = meta.name or ""
        label = kind.name in _LABELS
        if label or len(name) > _MAX_NAME_CHARACTERS or not _PLAIN.match(name):
            fine = (_LABEL if label else _SUBDOMAIN).match(name) is not None and len(name) <= _MAX_NAME_CHARACTERS
        else:
            fine = True
        if not fine:
            found.append(f"metadata.name: got {shorten(name)}, {LABEL_TEXT if label else _SUBDOMAIN_TEXT}")
        if not _known(self._namespaces, meta.namespace, _LABEL):
            found.append(f"metadata.namespace: got {shorten(meta.namespace)}, {LABEL_TEXT}")
        if meta.uid and not _UID.match(meta.uid):
            found.append(f"metadata.uid: got {shorten(meta.uid)}, {_UID_TEXT}")
        if meta.ownerReferences:
            for index, owner in enumerate(meta.ownerReferences):
                key = owner.kind, owner.name, owner.uid
                problems = self._owners.get(key)
                if problems is None:
                    problems = self._owners[key] = list(_owner_problems(owner))
                if problems:
                    found += [f"metadata.ownerReferences[{index}].{problem}" for problem in problems]
        if isinstance(obj, objects.Pod) and not _known(self._nodes, obj.spec.nodeName, _SUBDOMAIN):
            found.append(f"spec.nodeName: got {shorten(obj.spec.nodeName)}, {_SUBDOMAIN_TEXT}")
        return found


def _known(seen: dict[str | None, bool], text: str | None, pattern: re.Pattern[str]) -> bool:
    """Return True if a text matches the pattern; ``seen`` caches the results."""
    fine = seen.get(text)
    if fine is None:
        fine = seen[text] = len(text or "") <= _MAX_NAME_CHARACTERS and pattern.match(text or "") is not None
    return fine


def _owner_problems(owner: objects.OwnerReference) -> Iterator[str]:
    if owner.kind and not _KIND.match(owner.kind):
        yield f"kind: got {shorten(owner.kind)}, expected the name of a kind: letters and digits"
    if owner.name and not (_PATH.match(owner.name) and owner.name.isprintable()):
        yield f"name: got {shorten(owner.name)}, expected the name of an object: printable, at most 253 characters, no '/' and no '%'"
    if owner.uid and not _UID.match(owner.uid):
        yield f"uid: got {shorten(owner.uid)}, {_UID_TEXT}"
