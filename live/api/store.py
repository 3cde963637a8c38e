"""The objects of one resource in their last known state, stored as bytes and decoded on access."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from kubestow.live.api.answers import Object
from kubestow.live.api.versions import compare, is_well_formed
from kubestow.live.capture_kinds import Resource

#: Maximum number of decoded objects in memory; decoded objects take five times as much as their bytes.
_MAX_DECODED: Final = 20_000
#: Maximum number of remembered deletions, which keep older events from restoring an object.
_MAX_DELETIONS: Final = 20_000


class _Owner(msgspec.Struct, gc=False):
    uid: str = ""
    controller: bool | None = None


class Metadata(msgspec.Struct, gc=False):
    name: str
    uid: str = ""
    namespace: str | None = None
    resourceVersion: str = ""
    ownerReferences: list[_Owner] | None = None


class _Spec(msgspec.Struct, gc=False):
    nodeName: str | None = None


class _PodHead(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _ObjectHead(msgspec.Struct, gc=False):
    metadata: Metadata


_HEAD: Final = msgspec.json.Decoder(_ObjectHead)
_POD: Final = msgspec.json.Decoder(_PodHead)
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode: Final = msgspec.json.Encoder().encode


class Known(NamedTuple):
    """Identity and version of an object. ``place``: ``namespace/name``, or the name alone."""

    uid: str
    place: str
    version: str


class StoredObject(msgspec.Struct, gc=False):
    """A stored object.

    Attributes:
        known: Identity and version.
        raw: JSON without managed fields.
        owner: Uid of its controller; empty without one.
        node: Node of a pod; empty without one.
        kept: Redacted JSON for snapshots; empty until it is needed.
    """

    known: Known
    raw: bytes
    owner: str = ""
    node: str = ""
    kept: bytes = b""


def entry(resource: Resource, raw: msgspec.Raw | bytes) -> StoredObject:
    """Return an object for the store: with apiVersion and kind, which list items lack, and without managed fields.

    Raises:
        ValueError: the data is not an API object.
    """
    head: _ObjectHead | _PodHead = (_POD if resource.kind.name == "Pod" else _HEAD).decode(raw)
    fields = _FIELDS.decode(raw)
    metadata = _FIELDS.decode(fields.pop("metadata"))
    metadata.pop("managedFields", None)
    said = {"apiVersion": resource.api_version, "kind": resource.kind.name}
    whole = _encode({**said, "metadata": metadata, **{key: value for key, value in fields.items() if key not in said}})
    owner = next((each.uid for each in head.metadata.ownerReferences or () if each.controller), "")
    node = (head.spec.nodeName or "") if isinstance(head, _PodHead) else ""
    return StoredObject(known(head.metadata), whole, owner, node)


def known(metadata: Metadata) -> Known:
    """Return the identity of an object from its metadata; without a uid its name is used."""
    place = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
    return Known(metadata.uid or place, place, metadata.resourceVersion)


def newer(version: str, than: str) -> bool:
    """Return True if a resourceVersion is later than another one. A version that cannot be compared counts as later: it arrived later."""
    return compare(version, than) in (1, None)


class Store(Mapping[str, Object]):
    """Objects by uid, which callers must not change.

    A newer state is never replaced by an older one, so events, lists and single objects may arrive in any order. If versions cannot be
    compared, the order of arrival decides (:mod:`kubestow.live.api.versions`).

    Attributes:
        unordered: A version that cannot be compared; empty if there was none.
        arrivals: The number of stored readings so far.
    """

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.unordered = ""
        self.arrivals = 0
        self._arrived: dict[str, int] = {}
        self._entries: dict[str, StoredObject] = {}
        self._places: dict[str, str] = {}
        self._owned: dict[str, dict[str, None]] = {}
        self._on: dict[str, dict[str, None]] = {}
        self._gone: dict[str, str] = {}
        self._listed = ""
        self._awaited: set[str] = set()
        self._decoded: dict[str, Object] = {}

    def __getitem__(self, uid: str) -> Object:
        found = self._decoded.get(uid)
        if found is None:
            found = msgspec.json.decode(self._entries[uid].raw)
            if len(self._decoded) >= _MAX_DECODED:
                del self._decoded[next(iter(self._decoded))]
            self._decoded[uid] = found
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, uid: object) -> bool:
        return uid in self._entries

    def entries(self) -> list[StoredObject]:
        """Return all objects in the order of a list of the API server: that of ``namespace/name``, byte by byte."""
        return sorted(self._entries.values(), key=lambda each: each.known.place.encode())

    def at(self, place: str) -> Object | None:
        """Return the object at ``namespace/name`` (or ``name``); None if there is none."""
        uid = self._places.get(place)
        return self[uid] if uid is not None else None

    def owned(self, uid: str) -> list[Object]:
        """Return the objects that this controller owns."""
        return [self[each] for each in self._owned.get(uid, ())]

    def on(self, node: str) -> list[Object]:
        """Return the pods that are bound to a node."""
        return [self[each] for each in self._on.get(node, ())]

    def put(self, found: StoredObject, *, event: bool = False) -> bool:
        """Store an object unless it is outdated. Return True if it was stored.

        ``event``: the object comes from a watch, perhaps late. If it is older than the last list and was neither listed nor stored, it had
        been deleted by then.
        """
        uid, place, version = found.known
        before = self._entries.get(uid)
        if event and before is None and uid not in self._awaited and self._listed and not newer(version, self._listed):
            return False
        if before is not None and not newer(version, before.known.version):
            return False
        gone = self._gone.get(uid)
        if gone is not None and not newer(version, gone):
            return False
        if before is not None:
            self._forget(before)
        self.arrivals += 1
        if not is_well_formed(version):
            self.unordered = version or "none"
            self._arrived[uid] = self.arrivals
        self._entries[uid] = found
        self._places[place] = uid
        if found.owner:
            self._owned.setdefault(found.owner, {})[uid] = None
        if found.node:
            self._on.setdefault(found.node, {})[uid] = None
        return True

    def remove(self, uid: str, version: str) -> bool:
        """Remove an object that was deleted at this version. Return True if it was present."""
        before = self._entries.get(uid)
        if before is not None and compare(before.known.version, version) == 1:
            return False
        self._gone.pop(uid, None)
        self._gone[uid] = version
        if len(self._gone) > _MAX_DELETIONS:
            del self._gone[next(iter(self._gone))]
        if before is None:
            return False
        self._forget(before)
        return True

    def stale(self, listed: Iterable[Known], version: str, begun: int | None = None) -> list[Known]:
        """Remove objects that a complete list of this version lacks. Return the entries that are newer than the store.

        ``begun`` is the value of ``arrivals`` when the list was requested. An object without comparable version that arrived since stays.
        """
        present = {each.uid: each for each in listed}
        if not self._listed or newer(version, self._listed):
            self._listed = version
        for uid in [uid for uid in self._entries if uid not in present]:
            if begun is None or self._arrived.get(uid, 0) <= begun:
                self.remove(uid, version)
        lacking = [each for each in present.values() if self._lacks(each)]
        self._awaited = {each.uid for each in lacking}
        return lacking

    def same(self, candidate: Known) -> StoredObject | None:
        """Return the stored object if it has exactly this version; else None."""
        found = self._entries.get(candidate.uid)
        return found if found is not None and found.known == candidate else None

    def _lacks(self, listed: Known) -> bool:
        here = self._entries.get(listed.uid)
        if here is not None:
            return newer(listed.version, here.known.version)
        gone = self._gone.get(listed.uid)
        return gone is None or newer(listed.version, gone)

    def _forget(self, before: StoredObject) -> None:
        uid, place, _ = before.known
        del self._entries[uid]
        self._arrived.pop(uid, None)
        self._decoded.pop(uid, None)
        if self._places.get(place) == uid:
            del self._places[place]
        for index, key in ((self._owned, before.owner), (self._on, before.node)):
            if key in index:
                index[key].pop(uid, None)
                if not index[key]:
                    del index[key]
