"""Fields that Kubernetes' types do not have.

They are misspelt, in the wrong place, or newer than the table of :mod:`kubestow.models.snapshot.api_types`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.kinds import Kind
from kubestow.models.kube.lenient_decode import did_you_mean
from kubestow.models.kube.objects import ObjectMeta
from kubestow.models.kube.validation import created
from kubestow.models.kube.workload_objects import PodGroup, PodGroupSpec
from kubestow.models.snapshot.api_types import TABLE

_EXECUTION: Final = "requiredDuringSchedulingRequiredDuringExecution"
#: Fields that Kubernetes had in one version only, or never had (docs/sources.md), and that are read
#: nevertheless.
_EXTRA_FIELDS: Final[dict[str, dict[str, str]]] = {
    "core_v1.PodSpec": {"workloadRef": ""},
    "core_v1.NodeAffinity": {_EXECUTION: "core_v1.NodeSelector"},
    "core_v1.PodAffinity": {_EXECUTION: "core_v1.PodAffinityTerm"},
    "core_v1.PodAntiAffinity": {_EXECUTION: "core_v1.PodAffinityTerm"},
}
_TYPES: Final = {name: {**fields, **_EXTRA_FIELDS.get(name, {})} for name, fields in TABLE.types.items()}
#: Names from proposals, and other words for a field.
_SYNONYMS: Final = {"evenSpreading": "topologySpreadConstraints", "evenPodsSpread": "topologySpreadConstraints"}
_INDEX: Final = re.compile(r"\[\d+\]")
#: Objects per kind that are checked in a snapshot: as many as people write by hand, within the time for reading.
_MAX_CHECKED_OBJECTS: Final = 500
#: Kinds that state which devices pods request.
_DEVICE_KINDS: Final = ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass")
#: Label of a StatefulSet's pods with their revision. Pods of other controllers have one revision.
_REVISION: Final = "controller-revision-hash"
#: Depth of the fields of templates.
_MAX_FIELD_DEPTH: Final = 7


def unknown(value: object, kind: Kind) -> Iterator[str]:
    """Yield the fields of an object that its type does not have, as ``path: problem``.

    For alpha kinds and kinds of other projects, only the fields that are read are known. Unknown fields there
    are reported only if they resemble a known one.
    """
    version = value.get("apiVersion") if isinstance(value, Mapping) else None
    head = TABLE.heads.get(f"{version} {kind.name}") or TABLE.heads.get(kind.name)
    if head is not None:
        yield from _walk(value, head, "", head)
    elif kind.type is PodGroup and isinstance(value, Mapping) and isinstance(value.get("spec"), Mapping):
        known = PodGroupSpec.__struct_fields__
        for key in value["spec"]:
            near = did_you_mean(str(key), known) if key not in known else ""
            if near:
                yield f"spec.{key}: unknown field{near}"


def template_fields(template: object, path: str) -> Iterator[str]:
    """Yield the unknown fields of a pod template as plain data, which is at ``path`` of an object."""
    yield from _walk(template, "core_v1.PodTemplateSpec", path, "core_v1.PodTemplateSpec")


def _walk(value: object, name: str, path: str, head: str) -> Iterator[str]:
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _walk(item, name, f"{path}[{index}]", head)
    elif isinstance(value, Mapping):
        fields = _TYPES[name]
        for key, below in value.items():
            child = f"{path}.{key}" if path else str(key)
            if key not in fields:
                yield f"{child}: unknown field{_meant(str(key), fields, head)}"
            elif fields[key]:
                yield from _walk(below, fields[key], child, head)


def _meant(key: str, fields: Mapping[str, str], head: str) -> str:
    meant = _SYNONYMS.get(key, key)
    near = did_you_mean(meant, fields)
    if near:
        return near
    home = _home(meant, head)
    return f"; did you mean {home}?" if home else ""


@cache
def _home(key: str, head: str) -> str | None:
    """Return the path at which the nearest type below ``head`` has a field of this name."""
    level, seen = {head: ""}, {head}
    for _ in range(_MAX_FIELD_DEPTH):
        for name, path in level.items():
            if key in _TYPES[name]:
                return f"{path}{key}"
        level = {
            below: f"{path}{field}."
            for name, path in level.items()
            for field, below in _TYPES[name].items()
            if below and below not in seen and field != "metadata"
        }
        seen.update(level)
    return None


# --- many objects -----------------------------------------------------------------------------------------------------


class NotUnderstood:
    """Fields and values of later versions that API servers have stored and kubestow does not know.

    Attributes:
        of_pods: The fields of each pod with their effects, by ``namespace/name``.
    """

    def __init__(self) -> None:
        self.of_pods: dict[str, list[tuple[str, str]]] = {}
        self._found: dict[tuple[str, str], list[str]] = {}

    def note(self, name: str, field: str, effect: str) -> None:
        """Record a field of an object.

        Args:
            name: Kind and name of the object.
            effect: The problem and its effect.
        """
        kind, _, key = name.partition(" ")
        self._found.setdefault((kind, f"{_INDEX.sub('[]', field)}: {effect}"), []).append(name)
        if kind == "Pod":
            self.of_pods.setdefault(key, []).append((field, effect))

    def sentences(self) -> list[str]:
        """Return one sentence for each recorded field and value of each kind."""
        return [f"not understood: {_first(names)}: {what}" for (_, what), names in self._found.items()]


class FieldCheck:
    """Checks the fields of objects as they are read.

    In manifests, all objects are checked, and each unknown field is bad input. In a snapshot, objects without a
    uid were written by people. The first ones of each kind are checked, and ``warnings`` summarises the
    findings. Objects with a uid were stored by an API server, so only a later version's fields can be unknown.
    They matter in waiting pods and their claims. So one waiting pod per controller and revision is checked, and
    the first ones of the others.
    """

    #: The version and feature gates of the API server that is to accept manifests; None: do not check for its
    #: rejections.
    gates: FeatureGates | None = None
    #: True if unknown fields are allowed in manifests.
    lenient = False

    def __init__(self, problem: Callable[[str, str, str], None] | None, stored: NotUnderstood | None = None) -> None:
        self._problem = problem
        self._looked: Counter[str] = Counter()
        self._found: dict[tuple[str, str], list[str]] = {}
        self._stored = stored or NotUnderstood()
        self._alike: dict[tuple[str, str], list[tuple[str, str]]] = {}  # unknown fields of the pods of a controller

    def wants(self, kind: Kind, obj: Any) -> bool:
        """Return True if an object needs a check."""
        metadata: ObjectMeta = obj.metadata
        if self._problem is not None or metadata.uid is None:
            return self._problem is not None or self._looked[kind.name] < _MAX_CHECKED_OBJECTS
        if kind.name != "Pod":
            return kind.name in _DEVICE_KINDS and self._looked[kind.name] < _MAX_CHECKED_OBJECTS
        if obj.spec.nodeName:
            return False
        key = _alike(metadata)
        alike = self._alike.get(key) if key is not None else None
        for field, effect in alike or ():
            self._stored.note(f"Pod {metadata.namespace or 'default'}/{metadata.name}", field, effect)
        return alike is None and (key is not None or self._looked[kind.name] < _MAX_CHECKED_OBJECTS)

    def look(self, kind: Kind, value: object, source: str, name: str, metadata: ObjectMeta | None = None) -> None:
        """Look for unknown fields in an object and record them, for :meth:`warnings` or as problems of manifests.

        Args:
            kind: The kind of the object.
            value: The object as plain data.
            source: Its file, for messages.
            name: Kind and name of the object, for messages.
            metadata: Its decoded metadata, if available. A uid marks an object that an API server has stored.
        """
        self._looked[kind.name] += 1
        if self._problem is None and metadata is not None and metadata.uid is not None:
            self._look_at_stored(kind, value, name, metadata)
            return
        if self._problem is not None and self.gates is not None:
            for problem in created.refused(kind.name, value, self.gates):
                self._problem(source, name, problem)
        for problem in unknown(value, kind) if not self.lenient else ():
            if self._problem is not None:
                self._problem(source, name, problem if "?" in problem else f"{problem} (--allow-unknown-fields lets it through)")
            else:
                self._found.setdefault((kind.name, _INDEX.sub("[]", problem)), []).append(name)

    def _look_at_stored(self, kind: Kind, value: object, name: str, metadata: ObjectMeta) -> None:
        fields = [problem.partition(": ")[0] for problem in unknown(value, kind)]
        effects = [(field, "unknown field, ignored") for field in fields if field.startswith("spec.")]
        key = _alike(metadata)
        if kind.name == "Pod" and key is not None:
            self._alike[key] = effects
        for field, effect in effects:
            self._stored.note(name, field, effect)

    def warnings(self) -> list[str]:
        """Return the findings in objects of a snapshot that no API server has stored, one line per field and kind."""
        found = []
        for (kind, problem), names in self._found.items():
            first = f" (of the first {_MAX_CHECKED_OBJECTS} objects of the kind)" if self._looked[kind] == _MAX_CHECKED_OBJECTS else ""
            found.append(f"{_first(names)}{first}: {problem}; the field is ignored")
        return found


def field_check(
    problem: Callable[[str, str, str], None] | None, gates: FeatureGates, stored: NotUnderstood | None = None, *, lenient: bool
) -> FieldCheck | None:
    """Return the check for unknown fields of the input; None if there is nothing to check.

    Args:
        problem: Receives the problems of manifests, see :class:`FieldCheck`.
        gates: Feature gates of the API server that is to accept manifests.
        lenient: Allow unknown fields in manifests, but nothing else that the server rejects.
    """
    if lenient and problem is None:
        return None
    check = FieldCheck(problem, stored)
    check.gates, check.lenient = gates, lenient
    return check


def _alike(metadata: ObjectMeta) -> tuple[str, str] | None:
    """Return the key that pods of one controller revision share; None for pods without a controller."""
    owner = next((each.uid for each in metadata.ownerReferences or () if each.controller and each.uid), None)
    return None if owner is None else (owner, (metadata.labels or {}).get(_REVISION, ""))


def _first(names: list[str]) -> str:
    return f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else names[0]
