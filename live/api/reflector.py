"""A current copy of one resource: a list, then a watch; both are repeated after a failure. No change is missed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from kubestow.live.api.answers import ServerAnswer, Unreachable
from kubestow.live.api.connection import Connection, WatchRefused
from kubestow.live.api.store import Known, Metadata, Store, StoredObject, entry, known
from kubestow.live.capture_kinds import Resource

#: Objects per page of a list, and per page of metadata only.
PAGE_OBJECTS: Final = 500
_METADATA_PAGE_OBJECTS: Final = 2_000
_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
#: Up to this many changed objects are read one by one. For more, a list is cheaper.
_MAX_SINGLE_READS: Final = 200
#: Pause in seconds before a broken watch is reopened, doubled each time up to the maximum.
_MIN_PAUSE_SECONDS: Final = 0.1
_MAX_PAUSE_SECONDS: Final = 10.0
#: Seconds after which an open watch counts as healthy.
_HEALTHY_SECONDS: Final = 2.0
#: Minimum lifetime of a watch in seconds; the server ends it after up to twice as long.
_MIN_WATCH_SECONDS: Final = 300


class _ListMeta(msgspec.Struct, gc=False):
    resourceVersion: str = ""
    following: str | None = msgspec.field(default=None, name="continue")


class _List(msgspec.Struct):
    kind: str
    items: list[msgspec.Raw] | None = None
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


class _WatchedObject(msgspec.Struct, gc=False):
    metadata: Metadata


class _Event(msgspec.Struct, gc=False):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


class _Status(msgspec.Struct, gc=False):
    code: int = 0
    message: str = ""


_LIST: Final = msgspec.json.Decoder(_List)
_NAMED: Final = msgspec.json.Decoder(_WatchedObject)
_EVENT: Final = msgspec.json.Decoder(_Event)
_STATUS: Final = msgspec.json.Decoder(_Status)


class _Query(msgspec.Struct, gc=False):
    """Parameters of a list: objects per page (0 for one piece), media type, and field selector."""

    size: int = PAGE_OBJECTS
    accept: str = "application/json"
    selector: str = ""


class NotRead(Exception):
    """The server refuses a list; ``answer`` has its reason."""

    def __init__(self, resource: Resource, answer: ServerAnswer) -> None:
        super().__init__(f"{resource.label}: {answer.message}")
        self.answer = answer


class _Expired(Exception):
    """The start of the watch has expired on the server."""


class Reflector:
    """A store that follows one resource of the server. ``changed`` is called once after each batch of news.

    Attributes:
        store: The objects.
        refused: The reason for a missing watch; empty if there is none.
        opened: Set when the watch is open or refused.
    """

    def __init__(self, connection: Connection, resource: Resource, changed: Callable[[], None]) -> None:
        self.store = Store(resource)
        self.refused = ""
        self.opened = asyncio.Event()
        self._connection = connection
        self._resource = resource
        self._changed = changed
        self._version = ""
        self._heard = False

    # --- lists --------------------------------------------------------------------------------------------------------

    async def read_all(self) -> None:
        """Read all objects of the resource into the store, in their current state.

        Raises:
            NotRead: the server refuses the list.
            Unreachable: there was no answer.
        """
        found: dict[str, StoredObject] = {}
        begun = self.store.arrivals

        def take(items: list[msgspec.Raw]) -> None:
            for item in items:
                here = self.store.same(known(_NAMED.decode(item).metadata))
                each = here or entry(self._resource, item)
                found[each.known.uid] = each

        version = await self._pages(_Query(), take, found.clear)
        for stale in self.store.stale((each.known for each in found.values()), version, begun):
            self.store.put(found[stale.uid])
        self._version = version
        self._changed()

    async def refresh(self) -> None:
        """Update the store to the time of this call or later: list all metadata, then read the objects that differ.

        Raises:
            NotRead: the server refuses the list.
            Unreachable: there was no answer.
        """
        listed: list[Known] = []
        begun = self.store.arrivals

        def take(items: list[msgspec.Raw]) -> None:
            listed.extend(known(_NAMED.decode(item).metadata) for item in items)

        version = await self._pages(_Query(_METADATA_PAGE_OBJECTS, _METADATA), take, listed.clear)
        stale = self.store.stale(listed, version, begun)
        if len(stale) > _MAX_SINGLE_READS:
            await self.read_all()
            return
        await asyncio.gather(*(self._read(each) for each in stale))
        self._changed()

    async def _read(self, wanted: Known) -> None:
        """Read one object as a list, which needs no further permission."""
        namespace, _, name = wanted.place.rpartition("/")
        selector = f"metadata.name={name}" + (f",metadata.namespace={namespace}" if namespace else "")
        found: list[StoredObject] = []

        def take(items: list[msgspec.Raw]) -> None:
            found.extend(entry(self._resource, item) for item in items)

        version = await self._pages(_Query(0, selector=selector), take, found.clear)
        for each in found:
            self.store.put(each)
        if all(each.known.uid != wanted.uid for each in found):
            self.store.remove(wanted.uid, version)

    async def _pages(self, query: _Query, take: Callable[[list[msgspec.Raw]], None], again: Callable[[], None]) -> str:
        """Pass all pages of a list to ``take`` and return the list's version.

        Args:
            query: Parameters of the list.
            take: Receives the objects of one page.
            again: Called before the list restarts from its beginning because the server let the first pages expire.

        Raises:
            NotRead: the server refuses the list.
            Unreachable: there was no answer, or none that is a list.
        """
        size, token, restarted = query.size, "", False
        while True:
            parameters = {"limit": str(size) if size else "", "continue": token, "fieldSelector": query.selector}
            params = {key: value for key, value in parameters.items() if value}
            answer, data = await self._connection.read(self._resource.url(), params, accept=query.accept)
            if answer.code == 410 and token and not restarted:
                # The first page has expired on the server. A list in one piece cannot expire. Objects of the earlier pages may be
                # deleted by now.
                size, token, restarted = 0, "", True
                again()
                continue
            if not answer.ok:
                raise NotRead(self._resource, answer)
            try:
                page = _LIST.decode(data)
                take(page.items or [])
            except (ValueError, RecursionError) as error:
                raise Unreachable(f"{self._resource.label}: expected a list of objects: {error}") from None
            if page.metadata.following and page.metadata.following == token:
                raise Unreachable(f"{self._resource.label}: the list has no end: two pages have the same continue token")
            token = page.metadata.following or ""
            if not token:
                return page.metadata.resourceVersion

    # --- the watch ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Watch indefinitely, and list again if events were lost."""
        pause = _MIN_PAUSE_SECONDS
        while True:
            began, self._heard = asyncio.get_running_loop().time(), False
            try:
                if not self._version:
                    await self.read_all()
                await self._watch()
            except (_Expired, NotRead):
                self._version = ""
            except WatchRefused as refused:
                self.refused = f"{self._resource.label}: {refused}"
                self.opened.set()
                if refused.answer.code == 410:
                    self._version, self.refused = "", ""
            except Unreachable:
                pass
            # A watch with events or of some duration is healthy. One that ends at once may keep failing.
            pause = _MIN_PAUSE_SECONDS if self._heard or asyncio.get_running_loop().time() - began > _HEALTHY_SECONDS else pause
            await asyncio.sleep(pause * random.uniform(0.5, 1))
            pause = min(_MAX_PAUSE_SECONDS, pause * 2)

    async def _watch(self) -> None:
        params = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(random.randint(_MIN_WATCH_SECONDS, 2 * _MIN_WATCH_SECONDS)),
        }
        async for lines in self._connection.watch(self._resource.url(), params):
            self.refused = ""
            self.opened.set()
            news = False
            self._heard = self._heard or bool(lines)
            for line in lines:
                try:
                    news = self._take(_EVENT.decode(line)) or news
                except (ValueError, RecursionError):
                    self._version = ""
                    raise Unreachable(f"{self._resource.label}: expected an event") from None
            if news:
                self._changed()

    def _take(self, event: _Event) -> bool:
        """Apply an event. Return True if it changed the store."""
        if event.type == "ERROR":
            status = _STATUS.decode(event.object)
            if status.code == 410:
                raise _Expired
            raise Unreachable(status.message)
        if event.type == "BOOKMARK":
            self._version = _NAMED.decode(event.object).metadata.resourceVersion
            return False
        found = self._entry(event.object)
        self._version = found.known.version
        if event.type == "DELETED":
            return self.store.remove(found.known.uid, found.known.version)
        return self.store.put(found, event=True)

    def _entry(self, raw: msgspec.Raw | bytes) -> StoredObject:
        try:
            return entry(self._resource, raw)
        except (ValueError, RecursionError) as error:
            raise Unreachable(f"{self._resource.label}: expected an object: {error}") from None
