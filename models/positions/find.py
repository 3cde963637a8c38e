"""Positions of the fields of manifests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kubestow.models.documents.findings.check import Position
from kubestow.models.kube import kinds
from kubestow.models.positions import json_nodes, yaml_nodes
from kubestow.models.positions.field_path import place
from kubestow.models.positions.nodes import SourceLines, SourceNode
from kubestow.models.snapshot import sources
from kubestow.models.snapshot.decode import MAX_LIST_DEPTH, is_list
from kubestow.models.snapshot.texts.bundles import reads_as_json

#: Helm's comment above each rendered object.
_TEMPLATE: Final = re.compile(r"^# Source: (\S.*?)[ \t\r]*$", re.MULTILINE)
#: kind, namespace, name
_Key = tuple[str, str | None, str]


@dataclass
class _SourceFile:
    """A file that is parsed on first use."""

    name: str
    data: bytes
    lines: SourceLines | None = None


class _ObjectInFile(NamedTuple):
    """An object and its file. ``template``: chart template from which it was rendered."""

    node: SourceNode
    file: _SourceFile
    template: str | None


class Positions:
    """The positions of objects in some files, and of their fields.

    Args:
        namespace: Namespace of objects that state none.
        charts: Folders of charts by name.
    """

    def __init__(self, files: Sequence[tuple[str, bytes]], namespace: str = "default", charts: Mapping[str, str] | None = None) -> None:
        self._files = [_SourceFile(name, data) for name, data in files]
        self._namespace = namespace
        self._charts = charts or {}
        self._objects: dict[_Key, _ObjectInFile] | None = None

    def of(self, kind: str, namespace: str | None, name: str, field: str | None = None) -> Position | None:
        """Return the position of a field's key, or of its list element, through anchors and ``<<``.

        A missing field has the position of its nearest ancestor. None: no file has the object. Helm output on
        standard input has the name of its template, without a line.

        Args:
            namespace: None for objects without a namespace.
            field: Path such as ``spec.template.spec.topologySpreadConstraints[0].maxSkew``; None: the object
                itself.
        """
        if self._objects is None:
            self._objects = {}
            for file in self._files:
                for key, placed in _objects_of(file, self._namespace):
                    self._objects.setdefault(key, placed)
        entry = self._objects.get((kind, namespace, name))
        if entry is None and namespace == self._namespace:  # the kind may or may not be namespaced
            entry = self._objects.get((kind, None, name))
        if entry is None:
            return None
        if entry.template is not None:
            chart, slash, path = entry.template.partition("/")
            folder = self._charts.get(chart)
            return Position(entry.template if folder is None else f"{folder.rstrip('/')}{slash}{path}")
        file = entry.file
        if file.lines is None:
            file.lines = SourceLines(file.data.decode())
        return Position(file.name, *file.lines.at(place(entry.node, field) if field else entry.node.start))


def read(
    paths: Sequence[str],
    kept: Mapping[str, bytes] | None = None,
    *,
    namespace: str = "default",
    charts: Mapping[str, str] | None = None,
) -> Positions:
    """Return the positions in manifests given as on the command line: files, folders, ``-``.

    Unreadable files have no positions; the reader reports their errors.

    Args:
        kept: Content read before, by path, see :func:`kubestow.models.snapshot.sources.keeping`. Standard input
            can be read only once.
        namespace: Namespace of objects that state none.
        charts: Folders of charts by name, which hold the templates that Helm's output names.
    """
    files = []
    for path, _ in sources.files(paths, lambda path, message: None):
        data = (kept or {}).get(path)
        if data is None:
            try:
                data = sources.read(path)
            except ValueError:
                continue
        files.append((path, data))
    return Positions(files, namespace, charts)


def _objects_of(file: _SourceFile, namespace: str) -> Iterator[tuple[_Key, _ObjectInFile]]:
    try:
        text = file.data.decode()
    except UnicodeError:
        return
    try:
        for root, template in _roots(file, text):
            for kind, node in _unfold(root, None, 0):
                key = _key(kind, node, namespace)
                if key is not None:
                    yield key, _ObjectInFile(node, file, template)
    except (ValueError, RecursionError):
        return


def _roots(file: _SourceFile, text: str) -> Iterator[tuple[SourceNode, str | None]]:
    """Yield the documents of a file, and the template from which each was rendered."""
    if reads_as_json(file.data, file.name):
        for node in json_nodes.documents(text):
            yield node, None
        return
    for document in yaml_nodes.documents(text):
        template = _TEMPLATE.search(text, document.start, document.root.start) if file.name == sources.STDIN else None
        yield document.root, template[1] if template is not None else None


def _unfold(node: SourceNode, inherited: str | None, depth: int) -> Iterator[tuple[str, SourceNode]]:
    """Yield the objects of a document with their kinds, lists unfolded as in :mod:`kubestow.models.snapshot.decode`."""
    kind = _text(node, "kind") or inherited
    items = node.member("items")
    if kind is None or is_list(kind, items is not None):
        if depth < MAX_LIST_DEPTH:
            of_items = None if kind in (None, "List") else str(kind).removesuffix("List")
            for element in (items[1] if items is not None else node).elements():
                yield from _unfold(element, of_items, depth + 1)
    else:
        yield kind, node


def _key(kind: str, node: SourceNode, namespace: str) -> _Key | None:
    metadata = node.member("metadata")
    name = _text(metadata[1], "name") if metadata is not None else None
    if metadata is None or name is None:
        return None
    known = kinds.KINDS.get(kind)
    if known is not None and not known.namespaced:
        return kind, None, name
    return kind, _text(metadata[1], "namespace") or (namespace if known is not None else None), name


def _text(node: SourceNode, key: str) -> str | None:
    member = node.member(key)
    return member[1].text() if member is not None else None
