"""Names and UIDs as an API server has them: what is read here reaches terminals, pages and files, so nothing else is let in.

Source: k8s.io/apimachinery pkg/util/validation (IsDNS1123Subdomain, IsDNS1123Label) and pkg/api/validation/path (IsValidPathSegmentName).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from kubestow.models.kube import kinds, objects, workload_objects
from kubestow.models.kube.lenient_decode import shorten

#: Names of most kinds, such as those of pods and nodes. Most have no dot, and are one run of characters to the first pattern.
_PLAIN: Final = re.compile(r"[a-z0-9][-a-z0-9]*+(?<!-)\Z", re.ASCII)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]++(?:(?:-++|\.)[a-z0-9]++)*+\Z", re.ASCII)
_LONGEST: Final = 253
_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?\Z", re.ASCII)
#: API servers give UUIDs, kubelets hashes; other sources of snapshots make up their own.
_UID: Final = re.compile(r"[A-Za-z0-9.:_-]{1,128}\Z", re.ASCII)
#: Names of owners are of any kind, so that all that holds for them is what a URL of the API takes.
_PATH: Final = re.compile(r"(?!\.{1,2}\Z)[^/%]{1,253}\Z")
_KIND: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}\Z", re.ASCII)
#: Kinds whose names are labels of DNS names.
_LABELS: Final = frozenset({"Namespace", "Service"})

_SUBDOMAIN_TEXT: Final = "expected a DNS subdomain: at most 253 lower-case letters, digits, '-' and '.', letters or digits at both ends"
LABEL_TEXT: Final = "expected a DNS label: at most 63 lower-case letters, digits and '-', letters or digits at both ends"
_UID_TEXT: Final = "expected a UUID, or up to 128 letters, digits, '.', ':', '_' and '-'"


def is_label(name: str) -> bool:
    """Return whether a name is a label of a DNS name, as those of namespaces are."""
    return _LABEL.match(name) is not None


def key_of(kind: kinds.Kind, obj: Any) -> str:
    """Return the name under which an object is the only one of its kind."""
    name = obj.metadata.name or ""
    if isinstance(obj, workload_objects.PodGroup):  # three kinds of one name
        return f"{obj.group}/{obj.metadata.namespace}/{name}"
    return f"{obj.metadata.namespace}/{name}" if kind.namespaced else name


class NameCheck:
    """Tells what is wrong with the names and UIDs of objects. Texts that many objects share are looked at once."""

    def __init__(self) -> None:
        self._namespaces: dict[str | None, bool] = {None: True}
        self._nodes: dict[str | None, bool] = {None: True, "": True}
        self._owners: dict[tuple[str, str, str | None], list[str]] = {}

    def problems(self, kind: kinds.Kind, obj: object) -> list[str]:
        """Return the problems of an object, each as ``path: what is wrong, what was expected``."""
        meta: objects.ObjectMeta = obj.metadata  # type: ignore[attr-defined]
        found = []
        name = meta.name or ""
        label = kind.name in _LABELS
        if label or len(name) > _LONGEST or not _PLAIN.match(name):
            fine = (_LABEL if label else _SUBDOMAIN).match(name) is not None and len(name) <= _LONGEST
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
                told = self._owners.get(key)
                if told is None:
                    told = self._owners[key] = list(_owner_problems(owner))
                if told:
                    found += [f"metadata.ownerReferences[{index}].{problem}" for problem in told]
        if isinstance(obj, objects.Pod) and not _known(self._nodes, obj.spec.nodeName, _SUBDOMAIN):
            found.append(f"spec.nodeName: got {shorten(obj.spec.nodeName)}, {_SUBDOMAIN_TEXT}")
        return found


def _known(seen: dict[str | None, bool], text: str | None, pattern: re.Pattern[str]) -> bool:
    """Return whether a text fits the pattern, from what was ``seen`` before if it was."""
    fine = seen.get(text)
    if fine is None:
        fine = seen[text] = len(text or "") <= _LONGEST and pattern.match(text or "") is not None
    return fine


def _owner_problems(owner: objects.OwnerReference) -> Iterator[str]:
    if owner.kind and not _KIND.match(owner.kind):
        yield f"kind: got {shorten(owner.kind)}, expected the name of a kind: letters and digits"
    if owner.name and not (_PATH.match(owner.name) and owner.name.isprintable()):
        yield f"name: got {shorten(owner.name)}, expected the name of an object: printable, at most 253 characters, no '/' and no '%'"
    if owner.uid and not _UID.match(owner.uid):
        yield f"uid: got {shorten(owner.uid)}, {_UID_TEXT}"
