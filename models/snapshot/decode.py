"""Decoding of text to API objects.

JSON is decoded into the typed Structs. Plain data (from YAML or a caller) are converted to the same Structs. A
document is an object or a list of objects (``kind: List``, ``PodList`` …, or a bare JSON array), nested to any
depth. Each item of a JSON list is decoded on its own, so that one bad object does not hide others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import msgspec

from kubestow.models.kube import device_objects, kinds, lenient_decode
from kubestow.models.kube.objects import ObjectMeta, Pod, PodSpec, PodStatus
from kubestow.models.snapshot import api_types
from kubestow.models.snapshot.interning import Specs
from kubestow.models.snapshot.unknown_fields import FieldCheck

Buffer = bytes | memoryview | msgspec.Raw

#: Errors of msgspec for text that is not JSON. RecursionError: excessive nesting; ValueError: not UTF-8.
JSON_ERRORS: Final = (msgspec.DecodeError, RecursionError, ValueError)


class Sink(Protocol):
    """Receives the objects and problems of the input."""

    def accept(self, kind: kinds.Kind, obj: Any, source: str, *, known: bool = False) -> bool:
        """Take an object of a kind that is read; return True if it is valid. ``known``: its pod spec was read before."""

    def ignore(self, unread: api_types.Unread) -> Iterable[tuple[str, Mapping[str, Any]]]:
        """Take an object of another kind; return whole objects inside that are read instead, each with its path."""

    def listed(self, metadata: object) -> None:
        """Take the metadata of a List."""

    def problem(self, source: str, where: str, message: str) -> None:
        """Take a problem: file, object (kind namespace/name, or position in the file), and message."""

    def stand_in(self, ref: str, kind: str, metadata: ObjectMeta) -> str | None:
        """Return a name for an object without one; None if it needs its own."""


class _NamedObject(msgspec.Struct, gc=False):
    metadata: msgspec.Raw


class _Meta(msgspec.Struct, gc=False):
    name: str
    namespace: str | None = None


class _SplitPod(msgspec.Struct, gc=False):
    metadata: ObjectMeta
    spec: msgspec.Raw
    status: PodStatus | None = None


class _Document(msgspec.Struct, gc=False):
    apiVersion: Any = None
    kind: Any = None
    metadata: msgspec.Raw = msgspec.Raw()
    items: list[msgspec.Raw] | None = None


class _Decoders(dict[str, msgspec.json.Decoder[Any]]):
    """Decoders by kind, created on first use because each takes up to a millisecond."""

    def __missing__(self, kind: str) -> msgspec.json.Decoder[Any]:
        self[kind] = made = msgspec.json.Decoder(kinds.KINDS[kind].type)
        return made


#: apiVersion and kind that the items of a PodList and similar lists may omit.
_Type = tuple[Any, Any]

_DOCUMENT: Final = msgspec.json.Decoder(_Document)
_ARRAY: Final = msgspec.json.Decoder(list[msgspec.Raw])
_RAW: Final = msgspec.json.Decoder(msgspec.Raw)
_DECODERS: Final = _Decoders()
_SPLIT_POD: Final = msgspec.json.Decoder(_SplitPod)
_POD_SPEC: Final = msgspec.json.Decoder(PodSpec)
#: kubectl and the API server write apiVersion and kind first. Reading them here saves a scan of the whole object.
_QUICK_HEAD: Final = re.compile(rb'\{\s*"apiVersion"\s*:\s*"([a-z0-9./]+)"\s*,\s*"kind"\s*:\s*"([A-Za-z]+)"\s*,')
_IS_ARRAY: Final = re.compile(rb"\s*\[")
_TRAILING: Final = re.compile(r"trailing characters \(byte (\d+)\)")
_PLACED: Final = re.compile(r"(.*) - at `\$\.(.*)`\Z")
MAX_LIST_DEPTH: Final = 20  # nesting depth of lists


def identity(kind: object, metadata: object) -> str:
    """Return the name of an object in messages, such as ``Pod prod/web-1``."""
    name = metadata.get("name") or metadata.get("generateName") if isinstance(metadata, Mapping) else None
    namespace = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    known = kinds.KINDS.get(kind) if isinstance(kind, str) else None
    if not isinstance(namespace, str) or not namespace:
        namespace = "default" if known is not None and known.namespaced else None
    return f"{kind} {namespace + '/' if namespace else ''}{name if isinstance(name, str) else '(no name)'}"


def identity_of(kind: kinds.Kind, obj: Any) -> str:
    """Return the name of a decoded object in messages."""
    return identity(kind.name, {"name": obj.metadata.name, "namespace": obj.metadata.namespace})


def is_json(data: Buffer) -> bool:
    """Return True if the text starts with a JSON document. YAML in flow style may start the same way."""
    try:
        return _RAW.decode(data) is not None
    except JSON_ERRORS as error:
        return _TRAILING.search(str(error)) is not None


class DocumentReader:
    """Reads documents and passes the objects to a sink."""

    namespace = "default"  # of objects that state none

    def __init__(self, sink: Sink, *, names: bool = True, manifests: bool = False, fields: FieldCheck | None = None) -> None:
        self.sink = sink
        self.implied: _Type = None, None  #: apiVersion and kind of JSON documents that state none
        self._names = names  # reject objects without a name
        self._manifests = manifests  # reject kinds that Kubernetes lacks
        self._fields = fields
        self._said: set[tuple[str, str]] = set()
        self._specs = Specs()

    def json(self, data: Buffer, source: str) -> None:
        """Read all concatenated JSON documents in ``data``."""
        try:
            head = head_of(data)
        except JSON_ERRORS:
            for document in self._documents(data, source):
                self._document(document, source, "", 0, self.implied)
        else:
            self._unfold(head, data, source, "", 0, self.implied)

    def _documents(self, data: Buffer, source: str) -> Iterator[Buffer]:
        try:
            yield from documents_of(data)
        except JSON_ERRORS as error:
            self.sink.problem(source, "", _json_message(error))

    def _document(self, data: Buffer, source: str, where: str, depth: int, inherited: _Type) -> None:
        quick = _QUICK_HEAD.match(data)
        if quick is not None and not quick[2].endswith(b"List"):
            self._object(data, quick[1].decode(), quick[2].decode(), source, where)
            return
        try:
            head = head_of(data)
        except JSON_ERRORS:
            self._odd_document(data, source, where, depth, inherited)
        else:
            self._unfold(head, data, source, where, depth, inherited)

    def _unfold(self, head: _Document, data: Buffer, source: str, where: str, depth: int, inherited: _Type) -> None:
        api_version, kind = head.apiVersion or inherited[0], head.kind or inherited[1]
        if head.kind is None and head.items is not None and kind in kinds.KINDS:
            kind = f"{kind}List"
        if not is_list(kind, head.items is not None):
            self._object(data, api_version, kind, source, where)
        elif depth >= MAX_LIST_DEPTH:
            self.sink.problem(source, where, f"lists are nested deeper than {MAX_LIST_DEPTH}")
        else:
            if head.metadata:
                self.sink.listed(msgspec.json.decode(head.metadata))
            passed = inherited if kind == "List" else _item_type(api_version, kind)
            for index, item in enumerate(head.items or ()):
                self._document(item, source, f"{where}{'.' if where else ''}items[{index}]", depth + 1, passed)

    def _odd_document(self, data: Buffer, source: str, where: str, depth: int = 0, inherited: _Type = (None, None)) -> None:
        """Read a document with an unusual head as plain data, which finds the error."""
        try:
            value = msgspec.json.decode(data)
        except JSON_ERRORS as error:
            self.sink.problem(source, where, _json_message(error))
            return
        self.plain(value, source, where, depth, inherited)

    def _object(self, data: Buffer, api_version: Any, kind: Any, source: str, where: str) -> None:
        known_kind = kinds.find(api_version, kind) if isinstance(kind, str) and isinstance(api_version, str | None) else None
        if known_kind is None:
            self._unread(data, api_version, kind, source, where)
            return
        obj: Any
        text: bytes | None = b""
        key: bytes | None = None
        try:
            if api_version in device_objects.OLDER:
                obj = msgspec.convert(device_objects.as_v1(kind, msgspec.json.decode(data)), known_kind.type)
            elif known_kind.type is Pod:
                obj, text, key = self._pod(data)
            else:
                obj = _DECODERS[known_kind.name].decode(data)
        except JSON_ERRORS as error:
            try:
                value = msgspec.json.decode(data)
            except JSON_ERRORS:
                # A number out of range fails both; only the typed decoder reports its position.
                self.sink.problem(source, _peek(data, known_kind.name) or where, _json_message(error))
                return
            obj = self._fitted(
                device_objects.as_v1(kind, value) if api_version in device_objects.OLDER else value, known_kind, source, where
            )
            if obj is None:
                return
        if self._fields is not None and self._fields.wants(known_kind, obj):
            try:
                value = msgspec.json.decode(data)
            except JSON_ERRORS as error:  # in a part that the typed decoder skips
                self.sink.problem(source, _peek(data, known_kind.name) or where, _json_message(error))
                return
            self._look(value, known_kind, source, obj.metadata)
        if self._named(obj, known_kind, source, where, known=text is None) and text and key is not None:
            self._specs.keep(text, key, obj.spec)

    def _pod(self, data: Buffer) -> tuple[Pod, bytes | None, bytes | None]:
        """Return a pod, the text of its spec (None: the spec was known), and the key for keeping the spec (None: not reusable)."""
        split = _SPLIT_POD.decode(data)
        text = bytes(split.spec)
        spec, key = self._specs.find(text)
        if spec is not None:
            return Pod(split.metadata, spec, split.status), None, None
        try:
            return Pod(split.metadata, _POD_SPEC.decode(text), split.status), text, key
        except JSON_ERRORS:
            return _DECODERS["Pod"].decode(data), text, None  # reports the position in the pod

    def _look(self, value: Any, known_kind: kinds.Kind, source: str, metadata: ObjectMeta | None = None) -> None:
        if self._fields is not None:
            name = identity(known_kind.name, value.get("metadata") if isinstance(value, Mapping) else None)
            self._fields.look(known_kind, value, source, name, metadata)

    def _unread(self, data: Buffer, api_version: Any, kind: Any, source: str, where: str) -> None:
        if isinstance(kind, str) and kind and isinstance(api_version, str | None):
            self._other(api_version, kind, source, where, lambda: msgspec.json.decode(data))
            return
        self._odd_document(data, source, where)

    def _other(self, api_version: str | None, kind: str, source: str, where: str, value: Callable[[], Any]) -> None:
        """Pass an object of a kind that is not read to the sink, or report its kind as misnamed."""
        problem = api_types.misnamed(api_version, kind, value, strict=self._manifests)
        if problem is None:
            for path, inner in self.sink.ignore(api_types.Unread(kind, api_version, value, source, self.namespace)):
                self.plain(inner, source, path)
            return
        if (source, problem) in self._said:  # for example, for all pods of a cluster
            return
        self._said.add((source, problem))
        plain = value()
        metadata = plain.get("metadata") if isinstance(plain, Mapping) else None
        named = isinstance(metadata, Mapping) and isinstance(metadata.get("name"), str)
        self.sink.problem(source, identity(kind, metadata) if named else where, problem)

    def plain(self, value: object, source: str, where: str, depth: int = 0, inherited: _Type = (None, None)) -> None:
        """Read a document of plain Python data: dicts, lists, strings, numbers."""
        if isinstance(value, list | tuple):
            value = {"kind": "List", "items": value}
        if not isinstance(value, Mapping):
            self.sink.problem(source, where, f"got {lenient_decode.shorten(value)}, expected an object")
            return
        api_version, kind = value.get("apiVersion") or inherited[0], value.get("kind") or inherited[1]
        where_or_name = where or identity(kind if isinstance(kind, str) else "object", value.get("metadata"))
        if not isinstance(kind, str) or not kind:
            message = (
                "missing, expected text such as Pod" if kind is None else f"got {lenient_decode.shorten(kind)}, expected text such as Pod"
            )
            self.sink.problem(source, where_or_name, f"kind: {message}")
            return
        if not isinstance(api_version, str | None):
            self.sink.problem(source, where_or_name, f"apiVersion: got {lenient_decode.shorten(api_version)}, expected text such as v1")
            return
        items = value.get("items")
        if is_list(kind, items is not None):
            if depth >= MAX_LIST_DEPTH:
                self.sink.problem(source, where, f"lists are nested deeper than {MAX_LIST_DEPTH}")
            elif not isinstance(items, list | tuple | None):
                self.sink.problem(source, where or kind, f"items: got {lenient_decode.shorten(items)}, expected a list")
            else:
                self.sink.listed(value.get("metadata"))
                passed = _item_type(api_version, kind)
                for index, item in enumerate(items or ()):
                    self.plain(item, source, f"{where}{'.' if where else ''}items[{index}]", depth + 1, passed)
            return
        known_kind = kinds.find(api_version, kind)
        if known_kind is None:
            self._other(api_version, kind, source, where, lambda: value)
            return
        obj: Any
        read = device_objects.as_v1(kind, value) if api_version in device_objects.OLDER else value
        try:
            obj = msgspec.convert(read, known_kind.type)
        except (msgspec.ValidationError, RecursionError, ValueError):
            obj = self._fitted(read, known_kind, source, where)
            if obj is None:
                return
        if self._fields is not None and self._fields.wants(known_kind, obj):
            self._look(value, known_kind, source, obj.metadata)
        self._named(obj, known_kind, source, where)

    def _fitted(self, value: object, known_kind: kinds.Kind, source: str, where: str) -> Any:
        """Return the object decoded leniently, with nulls mended. Report every mismatch to the sink and return None if that fails."""
        name = identity(known_kind.name, value.get("metadata") if isinstance(value, Mapping) else None)
        data, problems = lenient_decode.fit(value, known_kind.type)
        if not problems:
            try:
                return msgspec.convert(data, known_kind.type)
            except (msgspec.ValidationError, RecursionError, ValueError) as error:
                problems.append(str(error))
        if self._manifests:
            self._look(value, known_kind, source)  # a misspelt field may be the reason for a missing one
        for problem in problems:
            self.sink.problem(source, name if "(no name)" not in name else f"{where}: {name}" if where else name, problem)
        return None

    def _named(self, obj: Any, known_kind: kinds.Kind, source: str, where: str, *, known: bool = False) -> bool:
        """Pass an object to the sink, or report that its name is missing or unusable. Return True if it is valid."""
        meta = obj.metadata
        if not meta.name and self._names:
            name = identity(known_kind.name, {"name": meta.generateName, "namespace": meta.namespace})
            meta.name = self.sink.stand_in(name, known_kind.name, meta)
            if meta.name is None:
                hint = "expected text (generateName is resolved by the API server only)" if meta.generateName else "expected text"
                self.sink.problem(source, f"{where}: {name}" if where else name, f"metadata.name: missing, {hint}")
                return False
        try:
            f"{meta.namespace}/{meta.name}".encode()
        except UnicodeEncodeError:
            self.sink.problem(source, where or known_kind.name, "metadata.name: holds half a surrogate pair, expected Unicode text")
            return False
        if not known_kind.namespaced:
            meta.namespace = None
        elif not meta.namespace:
            meta.namespace = self.namespace
        return self.sink.accept(known_kind, obj, source, known=known)


def documents_of(data: Buffer) -> Iterator[Buffer]:
    """Split concatenated documents.

    Raises:
        msgspec.DecodeError: Not JSON (and the other errors of ``JSON_ERRORS``).
    """
    remaining = memoryview(data)
    while True:
        try:
            _RAW.decode(remaining)
        except JSON_ERRORS as error:
            trailing = _TRAILING.search(str(error))
            if trailing is None:
                raise
            cut = int(trailing[1]) - 1  # msgspec counts the offending byte
            yield remaining[:cut]
            remaining = remaining[cut:]
        else:
            yield remaining
            return


def head_of(data: Buffer) -> _Document:
    """Return kind and items of a document; a bare array counts as a List.

    Raises:
        msgspec.DecodeError: Not one JSON object or array of the expected shape (and the others of
            ``JSON_ERRORS``).
    """
    return _Document(kind="List", items=_ARRAY.decode(data)) if _IS_ARRAY.match(data) else _DOCUMENT.decode(data)


def is_list(kind: Any, has_items: bool) -> bool:
    """Return True if a document is a list of objects. An empty one may have ``items: null``."""
    return isinstance(kind, str) and kind.endswith("List") and (has_items or kind == "List" or api_types.is_list_kind(kind))


def _peek(data: Buffer, kind: str) -> str | None:
    """Return the name of an object that does not decode as a whole, if its metadata do."""
    try:
        meta = msgspec.json.decode(msgspec.json.decode(data, type=_NamedObject).metadata, type=_Meta)
    except JSON_ERRORS:
        return None
    return identity(kind, {"name": meta.name, "namespace": meta.namespace})


def _item_type(api_version: Any, kind: str) -> _Type:
    return (None, None) if kind == "List" else (api_version, kind.removesuffix("List"))


def _json_message(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply, expected JSON of a Kubernetes object"
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8 text"
    text = str(error)
    placed = _PLACED.match(text)
    if placed is not None:
        return f"{placed[2]}: {placed[1][:1].lower()}{placed[1][1:]}, expected one that fits 64 bits"
    return text if text.startswith("JSON") else f"JSON is malformed: {text[:1].lower()}{text[1:]}"
