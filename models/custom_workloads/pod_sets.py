"""The pod sets of objects of custom workload kinds, by the table of kinds."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kubestow.models.custom_workloads.expressions import ExpressionError, Found, evaluate, number, walk
from kubestow.models.custom_workloads.table import KindEntry, SetEntry
from kubestow.models.kube import lenient_decode
from kubestow.models.kube.lenient_decode import did_you_mean, plain, shorten
from kubestow.models.kube.objects import ObjectMeta, OwnerReference
from kubestow.models.kube.workload_objects import PodSet, PodSetSpec, PodTemplateSpec

#: Kueue and its integrations start a suspended object once all of its pods fit, so it counts.
_QUEUE: Final = "kueue.x-k8s.io/queue-name"
#: Pods of one set; more are most likely a typing error.
_MAX_PODS: Final = 10_000_000
#: Random characters of names in Kubernetes.
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
#: Labels are at most this long; controllers cut or hash longer ones.
_MAX_LABEL_CHARACTERS: Final = 63
#: Returns a referenced object as plain data: kind, namespace, name.
Lookup = Callable[[str, str, str], Mapping[str, Any] | None]


@dataclass
class Lowered:
    """The pod sets of an object.

    Attributes:
        sets: The pod sets, each with the pod template as plain data.
        problems: Fields at fault, each ``path: problem``.
        notes: Fields and annotations that are not followed, and assumptions.
        missing: An object that this one refers to and the input lacks, and the effect.
        finished: True if the object has ended, so that its pod sets are empty.
    """

    sets: list[tuple[PodSet, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: str = ""
    finished: bool = False


def pod_sets(entry: KindEntry, value: Mapping[str, Any], api_version: str, namespace: str, lookup: Lookup) -> Lowered:
    """Return the pod sets of an object of a kind of the table.

    Args:
        entry: The entry of its kind.
        value: The object as plain data.
        api_version: Its apiVersion.
        namespace: Its namespace.
        lookup: Finds the objects that it refers to.
    """
    lowered = Lowered()
    value = _without_nulls(value)
    metadata, problems = lenient_decode.fit(value.get("metadata") or {}, ObjectMeta)
    lowered.problems += [f"metadata.{problem}" for problem in problems]
    if problems:
        return lowered
    meta = msgspec.convert(metadata, ObjectMeta)
    meta.namespace = meta.namespace or namespace
    if not meta.name:
        lowered.problems.append("metadata.name: missing, expected text")
        return lowered
    version = api_version.rpartition("/")[2]
    if version not in entry.versions:
        lowered.notes.append(f"version {plain(version)} is not known here: read as {entry.nearest(version)}")
    reader = _Reader(entry, value, meta, api_version, lowered)
    reader.misspelt()
    reader.resolve(lookup)
    try:
        reader.sets()
    except ExpressionError as error:
        lowered.problems.append(str(error))
    reader.unmodelled()
    return lowered


class _Reader:
    def __init__(self, entry: KindEntry, value: Mapping[str, Any], meta: ObjectMeta, api_version: str, lowered: Lowered) -> None:
        self._entry, self._value, self._meta, self._api_version, self._lowered = entry, value, meta, api_version, lowered
        self._variables: dict[str, Any] = {"object": value, "refs": {}}

    def misspelt(self) -> None:
        """Report fields of the spec that are not known and resemble a known one."""
        spec = self._value.get("spec")
        for key in spec if isinstance(spec, Mapping) and self._entry.fields else ():
            near = did_you_mean(str(key), self._entry.fields) if key not in self._entry.fields else ""
            if near:
                self._lowered.problems.append(f"spec.{plain(str(key))}: unknown field{near}")

    def resolve(self, lookup: Lookup) -> None:
        """Find the objects that this one refers to."""
        for name, ref in self._entry.refs.items():
            kind, target = evaluate(ref.kind, self._variables), evaluate(ref.name, self._variables)
            if not kind or not target:
                continue
            if not isinstance(kind, str) or not isinstance(target, str):
                raise ExpressionError(f"the {name} that it refers to: got {shorten(kind)} {shorten(target)}, expected a kind and a name")
            found = lookup(kind, self._meta.namespace or "", target)
            if found is None and target in ref.known:
                found = ref.known[target]
                self._lowered.notes.append(
                    f"{plain(kind)} {plain(target)} is not in the input: pods are made as by the one that {self._entry.system} installs"
                )
            if found is None:
                self._lowered.missing = f"no {plain(kind)} {shorten(target)} in the input: its pods are unknown"
            else:
                self._variables["refs"] = {**self._variables["refs"], name: _without_nulls(found)}

    def sets(self) -> None:
        """Add the pod sets to the result."""
        entry, held = self._entry, is_held(self._entry, self._value)
        minimum = number(entry.minimum, self._variables) if entry.minimum else 0
        found: list[tuple[PodSet, Any]] = []
        for each in entry.sets if not (self._lowered.problems or self._lowered.missing) else ():
            scope = {**self._value, "refs": self._variables["refs"]}
            places = [Found("", "", self._value)] if not each.each else walk(scope, each.each)
            for place in places:
                made = self._set(each, place)
                if made is not None:
                    found.append(made)
        specs = [one.spec for one, _ in found if one.spec is not None]
        if is_finished(entry, self._value):
            self._lowered.finished = True
            for spec in specs:
                spec.replicas = 0
        roles = [spec.role for spec in specs]
        members = [spec for spec in specs if spec.gang]
        if not minimum and any(spec.minimum is not None for spec in members):
            needed = sum(spec.replicas if spec.minimum is None else spec.minimum for spec in members)
            minimum = needed if needed < sum(spec.replicas for spec in members) else 0
        for i, (one, _) in enumerate(found):
            assert one.spec is not None
            one.spec.suspended, one.spec.minimum = held, minimum or None
            if len(found) > 1 and one.spec.role:
                suffix = one.spec.role if roles.count(one.spec.role) == 1 else f"{one.spec.role}-{i}"
                one.metadata = msgspec.structs.replace(one.metadata, name=f"{self._meta.name}.{suffix}")
        self._lowered.sets = found

    def _set(self, each: SetEntry, place: Found) -> tuple[PodSet, Any] | None:
        variables = {**self._variables, "item": place.value, "key": place.key, "position": place.position}
        if each.when and evaluate(each.when, variables) is not True:
            return None
        role = str(evaluate(each.role, variables)) if each.role else ""
        variables["role"] = role
        template, path = self._template(each, place, variables)
        if template is None:
            self._lowered.problems.append(f"{path}: missing, expected a pod template")
            return None
        template = _completed(template, each, variables)
        copies, size = number(each.copies, variables), number(each.size, variables)
        replicas = copies * number(each.replicas, variables)
        if replicas * size > _MAX_PODS:
            self._lowered.problems.append(f"{place.path or 'spec'}: asks for {replicas * size:,} pods, expected at most {_MAX_PODS:,}")
            return None
        data, problems = lenient_decode.fit(template, PodTemplateSpec)
        if problems:
            self._lowered.problems += [f"{path}.{problem}" for problem in problems]
            return None
        fixed = {"name": self._meta.name or "", "role": role}
        spec = PodSetSpec(
            replicas=replicas * size,
            size=max(1, size),
            first=number(each.first, variables),
            copies=max(1, copies),
            random=_random(self._meta.name or ""),
            template=msgspec.convert(data, PodTemplateSpec),
            path=path,
            role=role,
            kind=self._entry.kind,
            object=self._meta.name or "",
            pod=_fixed(each.pod, fixed),
            labels={key: _fixed(text, fixed)[:_MAX_LABEL_CHARACTERS] for key, text in each.labels.items()},
            owner=self._owner(each, fixed),
            gang=_fixed(self._entry.gang if each.gang is None else each.gang, fixed),
            minimum=number(each.minimum, variables) if each.minimum else None,
            evicted=self._entry.evicted,
        )
        return PodSet(msgspec.structs.replace(self._meta), self._entry.name, spec), template

    def _template(self, each: SetEntry, place: Found, variables: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, str]:
        """Return the pod template of a role as plain data, and its path in the object."""
        if each.build:
            built = evaluate(each.build, variables)
            return (built if isinstance(built, Mapping) else None), "spec"
        inner = each.template or each.spec
        found = next(walk(place.value, inner), None)
        path = ".".join(part for part in (place.path, inner if found is None else found.path) if part)
        if found is None or not isinstance(found.value, Mapping):
            return None, path
        if each.spec:
            return {"spec": found.value}, path.removesuffix(".spec")
        return found.value, path

    def _owner(self, each: SetEntry, fixed: Mapping[str, str]) -> OwnerReference:
        if each.owner is None:
            return OwnerReference(self._entry.kind, self._meta.name or "", self._api_version, self._meta.uid, True)
        return OwnerReference(each.owner.kind, _fixed(each.owner.name, fixed), each.owner.apiVersion, None, True)

    def unmodelled(self) -> None:
        """Note the fields and annotations that are not followed."""
        for path, effect in self._entry.unmodelled.items():
            found = next((f for f in walk(self._value, path) if f.value not in (False, "", [], {})), None)
            if found is not None:
                self._lowered.notes.append(f"{plain(found.path)}: {effect}")


def _completed(template: Mapping[str, Any], each: SetEntry, variables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a template with the fields, resources, containers and annotations that the controller sets."""
    annotations = {key: evaluate(text, variables) for key, text in each.annotations.items()}
    annotations = {key: str(text) for key, text in annotations.items() if text}
    if annotations:
        metadata = _mapping(template.get("metadata"))
        template = {**template, "metadata": {**metadata, "annotations": {**_mapping(metadata.get("annotations")), **annotations}}}
    spec = template.get("spec")
    if not isinstance(spec, Mapping):
        return template
    defaults = {key: evaluate(text, variables) for key, text in each.defaults.items() if not spec.get(key)}
    spec = {key: value for key, value in spec.items() if key not in each.own} | {key: value for key, value in defaults.items() if value}
    containers = spec.get("containers")
    if isinstance(containers, list):
        resources = evaluate(each.resources.value, variables) if each.resources is not None else None
        if each.resources is not None and resources:
            named = each.resources.container
            containers = [_with_resources(one, resources) if _mapping(one).get("name") == named else one for one in containers]
        spec["containers"] = [*containers, *(evaluate(each.sidecars, variables) if each.sidecars else ())]
    inits = evaluate(each.inits, variables) if each.inits else ()
    if inits and isinstance(spec.get("initContainers") or [], list):
        spec["initContainers"] = [*(spec.get("initContainers") or ()), *inits]
    return {**template, "spec": spec}


def _with_resources(container: Mapping[str, Any], resources: Any) -> Mapping[str, Any]:
    """Return a container with these requests and limits in place of its own of the same resources."""
    merged = dict(_mapping(container.get("resources")))
    for part, quantities in _mapping(resources).items():
        both = isinstance(merged.get(part), Mapping) and isinstance(quantities, Mapping)
        merged[part] = {**merged[part], **quantities} if both else quantities
    return {**container, "resources": merged}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _random(name: str) -> str:
    """Return five characters for those that a controller adds to the name of an object."""
    number = zlib.crc32(name.encode())
    return "".join(_ALPHABET[number // len(_ALPHABET) ** i % len(_ALPHABET)] for i in range(5))


def _fixed(pattern: str, fixed: Mapping[str, str]) -> str:
    for key, value in fixed.items():
        pattern = pattern.replace(f"{{{key}}}", value)
    return pattern


def _without_nulls(value: Any) -> Any:
    """Return plain data without null fields, which the API server drops."""
    if isinstance(value, Mapping):
        return {str(key): _without_nulls(below) for key, below in value.items() if below is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(below) for below in value]
    return value


def is_held(entry: KindEntry, value: Mapping[str, Any]) -> bool:
    """Return True if the controller makes no pods of an object for now, and no queue starts it once they fit."""
    if not entry.suspended or _QUEUE in _mapping(_mapping(value.get("metadata")).get("labels")):
        return False
    return evaluate(entry.suspended, {"object": _without_nulls(value)}) is True


def is_finished(entry: KindEntry, value: Mapping[str, Any]) -> bool:
    """Return True if an object has ended and makes no more pods."""
    return bool(entry.finished) and evaluate(entry.finished, {"object": _without_nulls(value)}) is True


def wrapped(entry: KindEntry, value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the whole objects inside an object, each with its path, as members of one gang and in its namespace."""
    outer = _mapping(_mapping(value).get("metadata"))
    name, queue = outer.get("name"), _mapping(outer.get("labels")).get(_QUEUE)
    for found in walk(value, entry.wraps) if entry.wraps else ():
        if not isinstance(found.value, Mapping):
            continue
        inner = dict(_mapping(found.value.get("metadata")))
        if outer.get("namespace") and not inner.get("namespace"):
            inner["namespace"] = outer["namespace"]
        if isinstance(name, str):
            inner["annotations"] = {"kubestow.dev/gang": name, **(inner.get("annotations") or {})}
        if queue:
            inner["labels"] = {_QUEUE: queue, **(inner.get("labels") or {})}
        yield found.path, {**found.value, "metadata": inner}
