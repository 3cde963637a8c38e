"""Fields that Kubernetes' types do not have: misspelt, in the wrong place, or newer than the table of :mod:`models.snapshot.api_types`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Final

from models.kube.kinds import Kind
from models.kube.lenient_decode import did_you_mean
from models.kube.objects import ObjectMeta
from models.kube.workload_objects import PodGroup, PodGroupSpec
from models.snapshot.api_types import TABLE

_EXECUTION: Final = "requiredDuringSchedulingRequiredDuringExecution"
#: What Kubernetes had for one version, or never had (docs/sources.md), and what is read nevertheless.
_MORE: Final[dict[str, dict[str, str]]] = {
    "core_v1.PodSpec": {"workloadRef": ""},
    "core_v1.NodeAffinity": {_EXECUTION: "core_v1.NodeSelector"},
    "core_v1.PodAffinity": {_EXECUTION: "core_v1.PodAffinityTerm"},
    "core_v1.PodAntiAffinity": {_EXECUTION: "core_v1.PodAffinityTerm"},
}
_TYPES: Final = {name: {**fields, **_MORE.get(name, {})} for name, fields in TABLE.types.items()}
#: Names from proposals and other words for a field.
_MEANT: Final = {"evenSpreading": "topologySpreadConstraints", "evenPodsSpread": "topologySpreadConstraints"}
_INDEX: Final = re.compile(r"\[\d+\]")
#: Objects of a kind that a snapshot's are looked at: as many as people write by hand, and no more than the time of reading allows.
_MOST: Final = 500
#: Fields of templates lie this deep.
_DEEPEST: Final = 7


def unknown(value: object, kind: Kind) -> Iterator[str]:
    """Yield the fields of an object that its type does not have, as ``path: what is wrong``.

    Of kinds that other projects define and of alpha kinds only the fields that are read are known, so that others are wrong only where they
    are spelt almost like one of these.
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
    meant = _MEANT.get(key, key)
    near = did_you_mean(meant, fields)
    if near:
        return near
    home = _home(meant, head)
    return f"; did you mean {home}?" if home else ""


@cache
def _home(key: str, head: str) -> str | None:
    """The path at which the nearest type below ``head`` has a field of this name."""
    level, seen = {head: ""}, {head}
    for _ in range(_DEEPEST):
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


class FieldCheck:
    """Looks at the fields of objects as they are read.

    In manifests at all of them, and each unknown field is bad input. Of a snapshot only objects without a uid can have any, as an API
    server drops what it does not know: the first ones of each kind are looked at, and what they have is summed up in ``warnings``.
    """

    def __init__(self, problem: Callable[[str, str, str], None] | None) -> None:
        self._problem = problem
        self._looked: Counter[str] = Counter()
        self._found: dict[tuple[str, str], list[str]] = {}

    def wants(self, kind: Kind, metadata: ObjectMeta) -> bool:
        """Return whether an object is to be looked at."""
        return self._problem is not None or (metadata.uid is None and self._looked[kind.name] < _MOST)

    def look(self, kind: Kind, value: object, source: str, name: str) -> None:
        """Look at an object, given as plain data."""
        self._looked[kind.name] += 1
        for problem in unknown(value, kind):
            if self._problem is not None:
                self._problem(source, name, problem if "?" in problem else f"{problem} (--allow-unknown-fields lets it through)")
            else:
                self._found.setdefault((kind.name, _INDEX.sub("[]", problem)), []).append(name)

    def warnings(self) -> list[str]:
        """Return what was found in a snapshot, a line for each field of each kind."""
        found = []
        for (kind, problem), names in self._found.items():
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            first = f" (of the first {_MOST} objects of the kind)" if self._looked[kind] == _MOST else ""
            found.append(f"{names[0]}{more}{first}: {problem}; the field is ignored")
        return found
