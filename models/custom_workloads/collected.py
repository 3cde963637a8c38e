"""The objects of custom workload kinds in one input, and those that they refer to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from kubestow.models.custom_workloads import table
from kubestow.models.custom_workloads.expressions import ExpressionError
from kubestow.models.custom_workloads.generated_names import GeneratedNames
from kubestow.models.custom_workloads.pod_sets import Lookup, Lowered, is_finished, is_held, pod_sets, wrapped
from kubestow.models.custom_workloads.table import KindEntry
from kubestow.models.kube import kinds
from kubestow.models.kube.lenient_decode import plain


class _Given(NamedTuple):
    entry: KindEntry
    api_version: str
    namespace: str
    value: Mapping[str, Any]
    source: str


class Read(NamedTuple):
    """An object with its pod sets.

    Attributes:
        ref: ``Kind namespace/name``.
        api_version: Its apiVersion.
        source: The file.
        lowered: Its pod sets, and the problems and notes.
    """

    ref: str
    api_version: str
    source: str
    lowered: Lowered


class Sink(Protocol):
    """Receives pod sets, problems of manifests, warnings, and notes on fields that are not followed."""

    def accept(self, kind: kinds.Kind, obj: Any, source: str) -> bool: ...
    def problem(self, source: str, where: str, message: str) -> None: ...
    def warn(self, message: str) -> None: ...
    def omit(self, message: str) -> None: ...
    def unresolved(self, ref: str, api_version: str, path: str, source: str, reason: str) -> None: ...


class CustomObjects:
    """Collects the objects of kinds of the table, then reads them together.

    Args:
        generated: Names in place of generated ones.
        manifests: True if the objects are to be created. Objects inside one of a cluster have been created.
    """

    def __init__(self, generated: GeneratedNames, *, manifests: bool = False) -> None:
        self._generated = generated
        self._manifests = manifests
        self._given: list[_Given] = []

    def take(
        self, kind: str, api_version: str | None, value: Callable[[], Any], source: str, namespace: str
    ) -> Iterator[tuple[str, Mapping[str, Any]]] | None:
        """Take an object. Return the whole objects inside, each with its path, or None if the table lacks its kind."""
        entry = table.find(api_version, kind) if api_version else None
        if entry is None or api_version is None or not table.available():
            return None
        plain_value = value()
        if not isinstance(plain_value, Mapping):
            return None
        metadata = plain_value.get("metadata")
        metadata = metadata if isinstance(metadata, Mapping) else {}
        stated, prefix = metadata.get("namespace"), metadata.get("generateName")
        space = stated if isinstance(stated, str) and stated else namespace
        if not metadata.get("name") and isinstance(prefix, str) and prefix:
            metadata = {**metadata, "name": self._generated.stand_in(entry.name, prefix)}
            plain_value = {**plain_value, "metadata": metadata}
        if entry.wraps and metadata.get("uid") and not self._manifests:
            return iter(())
        if entry.wraps and not _idle(entry, plain_value):
            return wrapped(entry, plain_value)
        self._given.append(_Given(entry, api_version, space, plain_value, source))
        return iter(())

    def settle(self, sink: Sink, native: Lookup, fields: Callable[[Any, str], Iterable[str]], *, strict: bool, lenient: bool) -> None:
        """Pass the pod sets of the objects to a sink.

        Args:
            sink: Receives the pod sets.
            native: Finds objects of Kubernetes' own kinds as plain data.
            fields: Returns the unknown fields of a template that is at a path.
            strict: The objects are manifests, so that each problem is bad input; else it is a warning.
            lenient: Allow unknown fields.
        """
        for ref, api_version, source, lowered in self.read(native):
            unknown = [each for one, template in lowered.sets for each in fields(template, one.spec.path if one.spec else "")]
            for problem in (*lowered.problems, *(unknown if strict and not lenient else ())):
                if strict:
                    sink.problem(source, ref, problem)
                else:
                    sink.warn(f"{ref} is not read: {problem}")
            if lowered.missing and strict:
                sink.unresolved(ref, api_version, "spec", source, lowered.missing)
            if not (lowered.sets or lowered.problems or lowered.missing or lowered.notes):
                sink.omit(f"{ref}: has no pod template and makes no pods")
            if lowered.finished and strict:
                sink.omit(f"{ref}: is finished: no more pods are made")
            for note in lowered.notes:
                sink.omit(f"{ref}: {note}")
            for pod_set, _ in lowered.sets:
                sink.accept(kinds.kind_of(pod_set), pod_set, source)

    def read(self, native: Lookup) -> Iterator[Read]:
        """Yield the objects with their pod sets, in input order.

        Args:
            native: Finds objects of Kubernetes' own kinds as plain data.
        """
        by_name: dict[tuple[str, str], list[_Given]] = {}
        for given in self._given:
            by_name.setdefault((given.entry.kind, _name(given.value)), []).append(given)

        def lookup(kind: str, namespace: str, name: str) -> Mapping[str, Any] | None:
            named = by_name.get((kind, name), ())
            cluster_wide = kind.startswith("Cluster")
            found = next((each.value for each in named if cluster_wide or each.namespace == namespace), None)
            return native(kind, namespace, name) if found is None else found

        for entry, api_version, namespace, value, source in self._given:
            if not (entry.sets or entry.wraps):
                continue
            ref = plain(f"{entry.name} {namespace}/{_name(value) or '(no name)'}")
            try:
                lowered = pod_sets(entry, value, api_version, namespace, lookup)
                if entry.wraps:
                    lowered.notes.append(f"is {'finished' if is_finished(entry, value) else 'suspended'}: no objects inside are made")
            except ExpressionError as error:
                lowered = Lowered(problems=[str(error)])
            yield Read(ref, plain(api_version), source, lowered)


def _idle(entry: KindEntry, value: Mapping[str, Any]) -> bool:
    """Return True if an object makes none of those inside."""
    try:
        return is_held(entry, value) or is_finished(entry, value)
    except ExpressionError:  # a field of another type
        return False


def _name(value: Mapping[str, Any]) -> str:
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) else ""
