"""The table of workload kinds: where an object has pod templates, and which pods its controller makes from each.

The table of this package is in ``kinds/*.yaml``, one file per group of systems. Files of users have the same form.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from kubestow.models.custom_workloads.expressions import VARIABLES, ExpressionError, compiled, steps
from kubestow.models.kube import objects
from kubestow.models.kube.lenient_decode import did_you_mean, plain, shorten

_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?\Z")
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
#: Placeholders of patterns: the object, its role, and the pod.
PLACEHOLDERS: Final = ("name", "role", "copy", "replica", "index", "number", "hash", "random")


#: Fields of a pod set that hold one expression each.
_EXPRESSIONS: Final = ("role", "when", "build", "replicas", "size", "first", "copies", "minimum", "sidecars", "inits")


class TableError(ValueError):
    """A table does not have the form that this module describes. ``problems``: one line each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


class OwnerEntry(msgspec.Struct, forbid_unknown_fields=True):
    """The object that controls pods, such as the Job that a JobSet makes. ``name`` is a pattern."""

    apiVersion: Annotated[str, Meta(description="Its apiVersion.")]
    kind: Annotated[str, Meta(description="Its kind.")]
    name: Annotated[str, Meta(description="Pattern of its name.")]


class ResourcesEntry(msgspec.Struct, forbid_unknown_fields=True):
    """Requests and limits that override those of a container of the template, resource by resource."""

    container: Annotated[str, Meta(description="Name of the container.")]
    value: Annotated[str, Meta(description="CEL expression for requests and limits; an empty map changes nothing.")]


class SetEntry(msgspec.Struct, forbid_unknown_fields=True):
    """Equal pods that an object asks for. Expressions are CEL, patterns have placeholders in braces."""

    each: Annotated[
        str, Meta(description="Path of the roles, each of which makes one pod set (`spec.roles[*]`, `spec.roles.*`); empty: the object.")
    ] = ""
    role: Annotated[str, Meta(description="Expression for the name of the role; empty: the set has none.")] = ""
    when: Annotated[str, Meta(description="Expression that says if the set exists.")] = ""
    template: Annotated[str, Meta(description="Path of the pod template in the role.")] = ""
    spec: Annotated[str, Meta(description="Path of a pod spec without a template around it, instead of `template`.")] = ""
    build: Annotated[str, Meta(description="Expression for a pod template, instead of `template`.")] = ""
    replicas: Annotated[str | int, Meta(description="Expression for the number of replicas.")] = 1
    size: Annotated[str | int, Meta(description="Expression for the number of pods of each replica.")] = 1
    first: Annotated[str | int, Meta(description="Expression for the index of the first pod of each replica.")] = 0
    copies: Annotated[str | int, Meta(description="Expression for equal parts of the pods, each with that many replicas.")] = 1
    pod: Annotated[str, Meta(description="Pattern of the pods' names; one that ends in `-` gets a random suffix.")] = "{name}-"
    owner: Annotated[OwnerEntry | None, Meta(description="The controller of the pods; omitted: the object.")] = None
    labels: Annotated[dict[str, str], Meta(description="Patterns of labels that the controller adds.")] = {}
    gang: Annotated[str | None, Meta(description="Pattern of the gang's name; omitted: the kind's.")] = None
    minimum: Annotated[str, Meta(description="Expression for the pods of the set that a gang needs; the kind's precedes.")] = ""
    annotations: Annotated[dict[str, str], Meta(description="Expressions for annotations of the pods; an empty text adds none.")] = {}
    resources: Annotated[ResourcesEntry | None, Meta(description="Resources that override those of the template.")] = None
    defaults: Annotated[dict[str, str], Meta(description="Expressions for fields of the pod spec that the template may lack.")] = {}
    own: Annotated[list[str], Meta(description="Fields of the pod spec that pods lack: the kind's own.")] = []
    sidecars: Annotated[str, Meta(description="Expression for containers that the controller adds.")] = ""
    inits: Annotated[str, Meta(description="Expression for init containers that the controller adds.")] = ""


class RefEntry(msgspec.Struct, forbid_unknown_fields=True):
    """Another object of the input that an object refers to."""

    kind: Annotated[str, Meta(description="Expression for its kind; an empty text means no reference.")]
    name: Annotated[str, Meta(description="Expression for its name.")]
    known: Annotated[
        dict[str, dict[str, Any]], Meta(description="Objects that the system installs itself, by name; used if the input lacks them.")
    ] = {}


class KindEntry(msgspec.Struct, forbid_unknown_fields=True):
    """A workload kind."""

    kind: Annotated[str, Meta(description="The kind.")]
    group: Annotated[str, Meta(description="Its API group.")]
    versions: Annotated[list[str], Meta(description="Known versions, the newest last.")]
    display: Annotated[str, Meta(description="Name in documents and messages if another kind of Kubernetes has this one.")] = ""
    system: Annotated[str, Meta(description="The project that defines the kind.")] = ""
    source: Annotated[str, Meta(description="Address of the definition that the entry follows.")] = ""
    suspended: Annotated[str, Meta(description="Expression that says if the controller makes no pods for now.")] = ""
    finished: Annotated[str, Meta(description="Expression that says if the object has ended and makes no more pods.")] = ""
    gang: Annotated[str, Meta(description="Pattern of the gang's name; empty: each pod is placed alone.")] = "{name}"
    evicted: Annotated[
        Literal["", "pod", "gang"],
        Meta(
            description="Effect of an eviction: `pod`, the controller makes another pod; `gang`, it also disturbs the gang; empty: unknown."
        ),
    ] = ""
    minimum: Annotated[str, Meta(description="Expression for the number of pods that a gang needs; empty: all.")] = ""
    refs: Annotated[dict[str, RefEntry], Meta(description="Objects that expressions use as `refs.NAME`.")] = {}
    wraps: Annotated[str, Meta(description="Path of whole objects inside, which are read by themselves as one gang.")] = ""
    unmodelled: Annotated[dict[str, str], Meta(description="Effects of fields and annotations that are not followed, by path.")] = {}
    fields: Annotated[list[str], Meta(description="Fields of the kind's spec, for the detection of misspelt ones.")] = []
    sets: Annotated[list[SetEntry], Meta(description="The pod sets. An object without any only serves others, such as a runtime.")] = []

    @property
    def name(self) -> str:
        """The kind's name in documents and messages."""
        return self.display or self.kind

    def nearest(self, version: str) -> str:
        """Return the known version that is nearest to another one, the more stable of two."""
        if version in self.versions:
            return version
        return min(self.versions, key=lambda known: _distance(known, version))


class WorkloadKinds(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A file of workload kinds."""

    apiVersion: Literal["kubestow.dev/v1alpha1"] = "kubestow.dev/v1alpha1"
    kind: Literal["WorkloadKinds"] = "WorkloadKinds"
    workloadKinds: Annotated[list[KindEntry], Meta(description="The kinds.")]


def _rank(version: str) -> tuple[int, int, int]:
    match = _VERSION.match(version)
    if match is None:
        return (0, 0, 0)
    return int(match[1]), {"alpha": 0, "beta": 1, None: 2}[match[2]], int(match[3] or 0)


def _distance(one: str, other: str) -> tuple[int, ...]:
    major, stage, number = (abs(a - b) for a, b in zip(_rank(one), _rank(other), strict=True))
    return major, stage, -_rank(one)[1], number


# --- reading ----------------------------------------------------------------------------------------------------------

_own: ContextVar[tuple[KindEntry, ...]] = ContextVar("own", default=())


@contextmanager
def extended(own: Iterable[KindEntry]) -> Iterator[None]:
    """Add a user's kinds to the table in this block. They precede the built-in entries of the same kind."""
    before = _own.set((*own, *_own.get()))
    try:
        yield
    finally:
        _own.reset(before)


def available() -> bool:
    """Return True if expressions can be evaluated: the CEL library is available on this platform."""
    return importlib.util.find_spec("cel_expr_python") is not None


def entries() -> list[KindEntry]:
    """Return all kinds: the user's first, then the built-in ones by system."""
    own = _own.get()
    taken = {(entry.group, entry.kind) for entry in own}
    return [*own, *(entry for entry in _built_in() if (entry.group, entry.kind) not in taken)]


def find(api_version: str | None, kind: str) -> KindEntry | None:
    """Return the entry of a kind; None if the table lacks it."""
    group = (api_version or "").rpartition("/")[0]
    for entry in _own.get():
        if entry.kind == kind and entry.group == group:
            return entry
    return _index().get((group, kind))


def recreating(owner: objects.OwnerReference) -> Literal["", "pod", "gang"]:
    """Return the effect of the eviction of a pod with this controller, by the table; empty for kinds that it lacks."""
    if "." not in (owner.apiVersion or "").partition("/")[0]:  # a kind of Kubernetes itself: no reason to read the table
        return ""
    entry = find(owner.apiVersion, owner.kind)
    return "" if entry is None else entry.evicted


@lru_cache(maxsize=1)
def _built_in() -> tuple[KindEntry, ...]:
    import yaml

    found: list[KindEntry] = []
    for path in sorted(Path(__file__).with_name("kinds").glob("*.yaml")):
        plain_entries = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
        found += msgspec.convert(plain_entries, WorkloadKinds).workloadKinds  # a test reads them with all checks
    return tuple(found)


@lru_cache(maxsize=1)
def _index() -> Mapping[tuple[str, str], KindEntry]:
    return {(entry.group, entry.kind): entry for entry in _built_in()}


def read(document: Any, label: str) -> list[KindEntry]:
    """Return the entries of a file of workload kinds as plain data.

    Raises:
        TableError: An unknown field, a wrong type, or an expression, path or pattern that cannot be used.
    """
    problems = list(_unknown(document, WorkloadKinds, ""))
    if not problems:
        try:
            found = msgspec.convert(document, WorkloadKinds)
        except msgspec.ValidationError as error:
            what, _, where = str(error).rpartition(" - at `$.")
            problems = [f"{where.rstrip('`')}: {what[:1].lower()}{what[1:]}" if what else str(error)]
        else:
            for i, entry in enumerate(found.workloadKinds):
                problems += [f"workloadKinds[{i}].{problem}" for problem in _entry_problems(entry)]
    if problems:
        raise TableError([f"{label}: {problem}" for problem in problems])
    return found.workloadKinds


#: The type of the items or values of a field.
_BELOW: Final[dict[tuple[type, str], type]] = {
    (WorkloadKinds, "workloadKinds"): KindEntry,
    (KindEntry, "sets"): SetEntry,
    (KindEntry, "refs"): RefEntry,
    (SetEntry, "owner"): OwnerEntry,
    (SetEntry, "resources"): ResourcesEntry,
}


def _unknown(value: Any, type_: type, path: str) -> Iterator[str]:
    """Yield the unknown fields of a table as plain data."""
    if not isinstance(value, Mapping):
        yield f"{path + ': ' if path else ''}got {shorten(value)}, expected an object"
        return
    known: tuple[str, ...] = type_.__struct_fields__  # type: ignore[attr-defined]
    for key, below in value.items():
        where = f"{path}.{key}" if path else str(key)
        if key not in known:
            yield f"{plain(where)}: unknown field{did_you_mean(str(key), known)}"
            continue
        inner = _BELOW.get((type_, key))
        if inner is None or below is None:
            continue
        if isinstance(below, list):
            for i, item in enumerate(below):
                yield from _unknown(item, inner, f"{where}[{i}]")
        elif key == "refs" and isinstance(below, Mapping):
            for name, item in below.items():
                yield from _unknown(item, inner, f"{where}.{name}")
        else:
            yield from _unknown(below, inner, where)


def _entry_problems(entry: KindEntry) -> Iterator[str]:
    if not entry.versions:
        yield "versions: empty, expected at least one such as v1"
    for version in entry.versions:
        if not _VERSION.match(version):
            yield f"versions: got {shorten(version)}, expected one such as v1beta1"
    yield from _expressions({"suspended": entry.suspended, "finished": entry.finished, "minimum": entry.minimum})
    yield from _patterns({"gang": entry.gang})
    yield from _paths({"wraps": entry.wraps, **{f"unmodelled.{path}": path for path in entry.unmodelled}})
    for name, ref in entry.refs.items():
        yield from _expressions({f"refs.{name}.kind": ref.kind, f"refs.{name}.name": ref.name})
    for i, each in enumerate(entry.sets):
        if sum(map(bool, (each.template, each.spec, each.build))) != 1:
            yield f"sets[{i}]: expected exactly one of template, spec and build"
        own = {name: getattr(each, name) for name in _EXPRESSIONS}
        own |= {f"annotations.{key}": text for key, text in each.annotations.items()}
        own |= {f"defaults.{key}": text for key, text in each.defaults.items()}
        if each.resources is not None:
            own["resources.value"] = each.resources.value
        patterns = {"pod": each.pod, "gang": each.gang or "", **{f"labels.{key}": value for key, value in each.labels.items()}}
        if each.owner is not None:
            patterns["owner.name"] = each.owner.name
        paths = {"each": each.each, "template": each.template, "spec": each.spec}
        yield from (f"sets[{i}].{problem}" for problem in (*_expressions(own), *_patterns(patterns), *_paths(paths)))


def _expressions(given: Mapping[str, str | int]) -> Iterator[str]:
    for field, expression in given.items():
        if isinstance(expression, int) or not expression:
            continue
        try:
            compiled(expression)
        except ExpressionError as error:
            yield f"{field}: {shorten(expression)} {error} (variables: {', '.join(VARIABLES)})"
        except ImportError:  # no CEL library on this platform
            return


def _patterns(given: Mapping[str, str]) -> Iterator[str]:
    for field, pattern in given.items():
        for name in _PLACEHOLDER.findall(pattern):
            if name not in PLACEHOLDERS:
                wanted = ", ".join(f"{{{each}}}" for each in PLACEHOLDERS)
                yield f"{field}: unknown placeholder {{{plain(name)}}}{did_you_mean(name, PLACEHOLDERS)}; expected one of {wanted}"


def _paths(given: Mapping[str, str]) -> Iterator[str]:
    for field, path in given.items():
        try:
            steps(path)
        except ExpressionError as error:
            yield f"{field}: {error}"
