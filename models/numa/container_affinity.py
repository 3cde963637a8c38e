"""Container affinity annotations, and the resulting affinity A(C1, C2) between containers.

Source: docs/sources.md#container-affinity; the reference implementations cri-resource-manager and nri-plugins.
All scalars of an annotation are read as raw text (:mod:`kubestow.models.numa.annotation_yaml`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Final

from kubestow.models.kube import objects
from kubestow.models.kube.lenient_decode import did_you_mean, plain, shorten
from kubestow.models.kube.pod_spec import qos_class
from kubestow.models.numa.annotation_yaml import KINDS, AnnotationProblem, YamlMap, YamlNode, YamlScalar, is_null, kind_of, load
from kubestow.models.numa.annotations import TAGS
from kubestow.models.numa.container_expressions import ContainerView, Expression, ExpressionError, clean
from kubestow.models.snapshot.affinity_keys import AFFINITY, ANTI_AFFINITY, PREFIXES

#: Largest absolute weight; larger ones are clamped.
MAX_WEIGHT: Final = 1000
#: Points of the policy switches colocate-pods and colocate-namespaces.
COLOCATION_POINTS: Final = 10
_INT32: Final = (-(2**31), 2**31 - 1)


class AnnotationError(ValueError):
    """An annotation that cannot be read. One line: pod, annotation, container, entry if any, and the expectation."""


@dataclass(frozen=True, slots=True)
class AffinityEntry:
    """An affinity of ``container`` of ``weight`` (negative: repulsion) to every container in ``scope`` that
    ``match`` holds for.

    Without a scope, these are the containers of its own pod.
    """

    container: str
    scope: Expression | None
    match: Expression
    weight: int


@dataclass(frozen=True, slots=True)
class Hints:
    """The entries of a pod's containers, and warnings about their form (one line each)."""

    entries: tuple[AffinityEntry, ...]
    warnings: tuple[str, ...]


def parse(pod: objects.Pod, *, symmetric: bool = False) -> Hints:
    """Return the hints in a pod's annotations.

    If a pod has annotations of both prefixes, only the current one is read, with a warning. Entries of ordinary
    init containers and unknown containers have no effect; they are left out with a warning.

    Args:
        symmetric: The shorthand ``c3: [c1]`` also gives c1 an entry for c3.

    Raises:
        AnnotationError: An annotation that is read is malformed.
    """
    running = [container.name or "" for container in _running(pod)]
    return parse_annotations(pod.metadata.annotations, where=_name(pod), containers=running, symmetric=symmetric)


def parse_annotations(annotations: Mapping[str, str] | None, *, where: str, containers: Collection[str], symmetric: bool = False) -> Hints:
    """Return the hints in any object's annotations, see :func:`parse`.

    Args:
        where: Name of the object in messages.
        containers: Its app containers and sidecars.

    Raises:
        AnnotationError: An annotation that is read is malformed.
    """
    given = annotations or {}
    present = [prefix for prefix in PREFIXES if any(prefix + kind in given for kind in (AFFINITY, ANTI_AFFINITY))]
    if not present:
        return Hints((), ())
    where = plain(where, None)
    warnings = []
    if len(present) > 1:
        warnings.append(f"{where}: has annotations {PREFIXES[0]}* and {PREFIXES[1]}*, the latter are ignored")
    entries: list[AffinityEntry] = []
    for kind in (AFFINITY, ANTI_AFFINITY):
        name = present[0] + kind
        if name not in given:
            continue
        outcome = _read(given[name], kind == ANTI_AFFINITY, symmetric)
        if outcome.error is not None:
            raise AnnotationError(f"{where}: annotation {name}: {outcome.error}")
        entries += [entry for entry in outcome.entries if entry.container in containers]
        strange = [f"{at}: {shorten(target)} is no app container or sidecar" for at, target in outcome.named if target not in containers]
        warnings += [f"{where}: annotation {name}: {text}" for text in (*outcome.remarks, *strange)]
    return Hints(tuple(entries), tuple(dict.fromkeys(warnings)))


def views(pod: objects.Pod) -> list[ContainerView]:
    """Return the data that expressions read of concurrent containers: app containers, then sidecars.

    Raises:
        AnnotationError: A tag annotation is malformed.
        QuantityError: A cpu or memory quantity is malformed.
    """
    metadata = pod.metadata
    quality = qos_class(pod)
    ids = dict(text.split("=", 1) for text in pod.containerIds or ()) if pod.spec.nodeName else {}
    found = []
    for container in _running(pod):
        name = container.name or ""
        found.append(
            ContainerView(
                namespace=metadata.namespace or "default",
                pod=metadata.name or "",
                container=name,
                pod_uid=metadata.uid or "",
                qosclass=quality,
                id=ids.get(name, ""),
                pod_labels=metadata.labels or {},
                tags=_tags(pod, f"{TAGS}{name}"),
            )
        )
    return found


def _running(pod: objects.Pod) -> list[objects.Container]:
    return [*(pod.spec.containers or ()), *(c for c in pod.spec.initContainers or () if c.restartPolicy == "Always")]


def _name(pod: objects.Pod) -> str:
    return f"Pod {pod.metadata.namespace or 'default'}/{pod.metadata.name or '(no name)'}"


def _tags(pod: objects.Pod, annotation: str) -> Mapping[str, str]:
    text = (pod.metadata.annotations or {}).get(annotation)
    if text is None or not text.strip():
        return {}
    tags: dict[str, str] = {}
    for item in text.split(","):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not key or not equals or key in tags:
            problem = "the key was given before" if key in tags else "expected key=value,key=value"
            raise AnnotationError(plain(f"{_name(pod)}: annotation {annotation}: got {shorten(item)}, {problem}", None))
        tags[key] = value
    return tags


def _same_pod(a: ContainerView, b: ContainerView) -> bool:
    return a.pod == b.pod and a.namespace == b.namespace


def reaches(entry: AffinityEntry, own: ContainerView, other: ContainerView) -> bool:
    """Return True if an entry of ``own`` counts towards ``other`` on the same node; never towards itself."""
    if _same_pod(own, other):
        if own.container == other.container:
            return False
    elif entry.scope is None:
        return False
    return (entry.scope is None or entry.scope.holds(other)) and entry.match.holds(other)


def affinity(
    hints: Hints, own: ContainerView, other: ContainerView, *, colocate_pods: bool = False, colocate_namespaces: bool = False
) -> int:
    """Return A(own, other): the sum of the weights of own's entries that reach other, both on one node.

    A container without entries has the affinity of the switches instead: each adds :data:`COLOCATION_POINTS`, within the pod
    (colocate_pods) and within the namespace (colocate_namespaces). Within the pod both apply. It is 0 to itself.

    Args:
        hints: Hints of own's pod.
    """
    entries = [entry for entry in hints.entries if entry.container == own.container]
    if entries:
        return sum(entry.weight for entry in entries if reaches(entry, own, other))
    inside = _same_pod(own, other)
    if inside and own.container == other.container:
        return 0
    total = COLOCATION_POINTS if colocate_pods and inside else 0
    return total + (COLOCATION_POINTS if colocate_namespaces and own.namespace == other.namespace else 0)


@dataclass
class _AnnotationResult:
    """One annotation's text, read independently of its object. ``named``: (position, name) of all container names in it."""

    entries: list[AffinityEntry] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    named: list[tuple[str, str]] = field(default_factory=list)
    error: str | None = None


@lru_cache(maxsize=512)
def _read(text: str, anti: bool, symmetric: bool) -> _AnnotationResult:
    """Return the content of an annotation. Replicas share annotations, so it is cached and must not be changed."""
    outcome = _AnnotationResult()
    try:
        lists = list(_lists(load(text)))
        outcome.named += [(_at(container), container) for container, _ in lists]
        if _is_shorthand(lists):
            _shorthand(lists, anti, symmetric, outcome)
        else:
            for container, items in lists:
                for index, item in enumerate(items):
                    outcome.entries.append(_entry(container, item, anti, _at(container, index), outcome))
    except AnnotationProblem as error:
        return _AnnotationResult(error=str(error))
    return outcome


def _at(container: str, index: int | None = None) -> str:
    return f"container {shorten(container)}" + ("" if index is None else f", entry {index}")


def _lists(root: YamlNode) -> Iterator[tuple[str, list[YamlNode]]]:
    """Yield the lists by container name."""
    if is_null(root):
        return
    if not isinstance(root, YamlMap):
        raise AnnotationProblem(f"got {kind_of(root)}, expected a mapping of container names to lists")
    seen: set[str] = set()
    for key, value in root.pairs:
        if not isinstance(key, YamlScalar):
            raise AnnotationProblem(f"got {kind_of(key)} as a key, expected a container name")
        if key.text in seen:
            raise AnnotationProblem(f"{_at(key.text)}: duplicate key, expected each container once")
        seen.add(key.text)
        if "/" in key.text and not isinstance(value, list):
            raise AnnotationProblem(
                f"{shorten(key.text)} looks like a second annotation that is indented too far, expected a container name"
            )
        if not isinstance(value, list) and not is_null(value):
            raise AnnotationProblem(f"{_at(key.text)}: got {kind_of(value)}, expected a list of container names or of entries")
        yield key.text, value if isinstance(value, list) else []


def _is_shorthand(lists: list[tuple[str, list[YamlNode]]]) -> bool:
    """Return True if the lists hold container names, False if they hold entries."""
    form: type | None = None
    for container, items in lists:
        for index, item in enumerate(items):
            if isinstance(item, list):
                raise AnnotationProblem(f"{_at(container, index)}: got a list, expected a container name or a mapping")
            if form is not None and form is not type(item):
                raise AnnotationProblem(f"{_at(container, index)}: got {kind_of(item)} after {KINDS[form]}, expected one form throughout")
            form = type(item)
    return form is YamlScalar


def _shorthand(lists: list[tuple[str, list[YamlNode]]], anti: bool, symmetric: bool, outcome: _AnnotationResult) -> None:
    targets: dict[str, dict[str, None]] = {}  # insertion-ordered sets: a repeated pair counts once
    for container, items in lists:
        for index, item in enumerate(items):
            assert isinstance(item, YamlScalar)
            targets.setdefault(container, {})[item.text] = None
            outcome.named.append((_at(container, index), item.text))
            if symmetric:
                targets.setdefault(item.text, {})[container] = None
    outcome.entries += [
        AffinityEntry(container, None, Expression("name", "In", tuple(names)), -1 if anti else 1) for container, names in targets.items()
    ]


def _entry(container: str, item: YamlNode, anti: bool, at: str, outcome: _AnnotationResult) -> AffinityEntry:
    fields = _fields(item, ("scope", "match", "weight"), at)
    if "match" not in fields:
        raise AnnotationProblem(f"{at}: no match, expected an expression")
    scope = _expression(fields["scope"], f"{at}, scope", outcome) if "scope" in fields else None
    match = _expression(fields["match"], f"{at}, match", outcome)
    if scope is None:
        outcome.named += [(f"{at}, match", name) for name in _names(match)]
    return AffinityEntry(container, scope, match, _weight(fields.get("weight"), anti, f"{at}, weight", outcome))


def _names(match: Expression) -> tuple[str, ...]:
    """Return the containers of its own pod that an expression names."""
    by_name = clean(match.key) in ("name", "labels/io.kubernetes.container.name")
    return match.values if by_name and match.operator in ("Equals", "In") and "*" not in match.values else ()


def _expression(node: YamlNode, at: str, outcome: _AnnotationResult) -> Expression:
    fields = _fields(node, ("key", "operator", "values"), at)
    values: list[str] = []
    given = fields.get("values", [])
    if not isinstance(given, list):
        raise AnnotationProblem(f"{at}: values is {kind_of(given)}, expected a list")
    for value in given:
        if not isinstance(value, YamlScalar):
            raise AnnotationProblem(f"{at}: got {kind_of(value)} among the values, expected text")
        values.append(value.text)
    if "operator" not in fields:
        raise AnnotationProblem(f"{at}: no operator, expected one such as Equals")
    operator = _text(fields, "operator", at)
    expression = Expression(_text(fields, "key", at), "NotExists" if operator == "NotExist" else operator, tuple(values))
    try:
        expression.check()
    except ExpressionError as error:
        raise AnnotationProblem(f"{at}: {error}") from None
    remark = expression.remark()
    if remark is not None:
        outcome.remarks.append(f"{at}: {remark}")
    return expression


def _fields(node: YamlNode, known: tuple[str, ...], at: str) -> dict[str, YamlNode]:
    """Return the non-null fields of a mapping by their lower-case names.

    Args:
        known: Names of the allowed fields.
        at: Position of the mapping, for messages.

    Raises:
        AnnotationProblem: It is no mapping, or a field is unknown or repeated.
    """
    if not isinstance(node, YamlMap):
        raise AnnotationProblem(f"{at}: got {kind_of(node)}, expected a mapping with {', '.join(known)}")
    fields: dict[str, YamlNode] = {}
    for key, value in node.pairs:
        name = key.text.lower() if isinstance(key, YamlScalar) else ""
        if name not in known:
            got = shorten(key.text) if isinstance(key, YamlScalar) else kind_of(key)
            raise AnnotationProblem(
                f"{at}: unknown field {got}, expected {', '.join(known[:-1])} or {known[-1]}{did_you_mean(name, known)}"
            )
        if name in fields:
            raise AnnotationProblem(f"{at}: duplicate key {shorten(name)}")
        fields[name] = value
    return {name: value for name, value in fields.items() if not is_null(value)}


def _text(fields: dict[str, YamlNode], name: str, at: str) -> str:
    node = fields.get(name, YamlScalar("", True))
    if not isinstance(node, YamlScalar):
        raise AnnotationProblem(f"{at}: {name} is {kind_of(node)}, expected text")
    return node.text


_NUMBER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,40})(?:\.[0-9]{0,40})?(?:[eE][-+]?[0-9]{1,2})?\Z")


def _weight(node: YamlNode, anti: bool, at: str, outcome: _AnnotationResult) -> int:
    """Return the signed weight: negated for an anti-affinity, then clamped."""
    if node is None:
        return -1 if anti else 1
    number = Fraction(node.text) if isinstance(node, YamlScalar) and node.plain and _NUMBER.match(node.text) else None
    if number is None or number.denominator != 1:
        got = kind_of(node) if not isinstance(node, YamlScalar) else shorten(node.text) if node.plain else f"text {shorten(node.text)}"
        raise AnnotationProblem(f"{at}: got {got}, expected a whole number")
    weight = number.numerator
    if not _INT32[0] <= weight <= _INT32[1]:
        raise AnnotationProblem(f"{at}: got {shorten(weight)}, expected a whole number that fits 32 bits")
    if weight == 0:
        outcome.remarks.append(f"{at}: 0 counts as the default, 1")
        weight = 1
    if anti and weight < 0:
        outcome.remarks.append(f"{at}: {weight} in an anti-affinity pulls the containers closer")
    clamped = max(-MAX_WEIGHT, min(MAX_WEIGHT, weight))
    if clamped != weight:
        outcome.remarks.append(f"{at}: {weight} is beyond {MAX_WEIGHT}, {clamped} is used")
    return -clamped if anti else clamped
