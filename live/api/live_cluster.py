"""A cluster as it is now: all kinds that a snapshot has, kept current by lists and watches."""

from __future__ import annotations

import asyncio
from collections import ChainMap
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, TypeVar

from kubestow.live.api.answers import Object, Unreachable
from kubestow.live.api.connection import Connection
from kubestow.live.api.discovery import discover
from kubestow.live.api.reflector import NotRead, Reflector
from kubestow.live.api.store import Entry, Store
from kubestow.live.capture import CLOSING, SEPARATOR, now, opening, sentences
from kubestow.live.redact import Keeper
from kubestow.models.snapshot.capture_info import Capture
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_json

T = TypeVar("T")

#: Without these nothing is known of a cluster.
_ESSENTIAL: Final = ("Pod", "Node")
_REFUSALS: Final = (403, 404, 405)
#: Objects that are redacted before other tasks have their turn.
_AT_ONCE: Final = 500
#: Seconds that the watches have to stand after the lists.
_OPENED: Final = 30.0


class LiveCluster:
    """Follows a cluster. ``problems``: what is missing though the cluster may have it, a line each; ``notes``: what is worth knowing
    otherwise. Objects that are handed out must not be changed."""

    def __init__(self, connection: Connection) -> None:
        self.problems: list[str] = []
        self.notes: list[str] = []
        self._connection = connection
        self._reflectors: list[Reflector] = []
        self._watches: list[asyncio.Task[None]] = []
        self._news: asyncio.Future[None] | None = None
        self._refreshing = asyncio.Lock()
        self._begun = self._done = 0

    async def start(self) -> None:
        """Read everything and open the watches.

        Raises:
            InputError: pods or nodes may not be read or watched, or the server does not answer.
        """
        try:
            await self._start()
        except BaseException as error:
            await self.close()
            if isinstance(error, Unreachable):
                raise InputError([str(error)]) from None
            raise

    async def _start(self) -> None:
        found = await discover(self._connection)
        self.problems = [f"{name}: the server does not name it" for name in found.served.lacking] + found.problems
        if found.served.absent:
            self.notes.append("not on this server: " + ", ".join(found.served.absent))
        lacking = [name for name in _ESSENTIAL if name in found.served.lacking]
        if lacking:
            raise InputError([f"the server does not name {' and '.join(lacking)}; expected a Kubernetes API server"])
        reflectors = [Reflector(self._connection, resource, self._changed) for resource in found.served.resources]
        results = await asyncio.gather(*(each.read_all() for each in reflectors), return_exceptions=True)
        for reflector, result in zip(reflectors, results, strict=True):
            if isinstance(result, NotRead):
                self._not_read(reflector, result)
            elif isinstance(result, BaseException):
                raise result
            else:
                self._reflectors.append(reflector)
        self.notes += [
            f"{each.store.resource.label}: the server gives resourceVersion {each.store.unordered!r}, which is no number: "
            "readings count in the order in which they arrive"
            for each in self._reflectors
            if each.store.unordered
        ]
        self._watches = [asyncio.create_task(each.run()) for each in self._reflectors]
        await self._watched()

    def _not_read(self, reflector: Reflector, refusal: NotRead) -> None:
        name = reflector.store.resource.kind.name
        if name in _ESSENTIAL:
            raise InputError([f"{refusal}; expected the right to get, list and watch {reflector.store.resource.label}"])
        if refusal.answer.code not in _REFUSALS:
            raise Unreachable(str(refusal))
        self.problems.append(f"left out: {refusal}")

    async def _watched(self) -> None:
        """Wait until all watches stand, or are refused: then ``refresh`` alone brings news of that kind."""
        opening_all = asyncio.gather(*(each.opened.wait() for each in self._reflectors))
        try:
            async with asyncio.timeout(_OPENED):
                await opening_all
        except TimeoutError:
            raise Unreachable(f"the server opens no watches for {_OPENED:g} s") from None
        for each in self._reflectors:
            if each.refused and each.store.resource.kind.name in _ESSENTIAL:
                raise InputError([f"{each.refused}; expected the right to get, list and watch {each.store.resource.label}"])
            if each.refused:
                self.notes.append(f"no watch, and read before each wave instead: {each.refused}")

    async def close(self) -> None:
        """End all watches. The connection stays."""
        for task in self._watches:
            task.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        self._watches = []

    # --- what there is ------------------------------------------------------------------------------------------------

    def objects(self, kind: str) -> Mapping[str, Object]:
        """Return the objects of a kind by uid, as the API gave them but for the managed fields; the mapping changes with the cluster."""
        stores = [each.store for each in self._reflectors if each.store.resource.kind.name == kind]
        if len(stores) == 1:
            return stores[0]
        return ChainMap(*stores)  # type: ignore[arg-type] # several groups may have a kind of this name; nothing is written

    def pod(self, uid: str) -> Object | None:
        """Return a pod."""
        return self._of("Pod").get(uid)

    def node(self, name: str) -> Object | None:
        """Return a node."""
        return self.named("Node", name)

    def named(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """Return the object of a name."""
        place = f"{namespace}/{name}" if namespace else name
        for each in self._reflectors:
            if each.store.resource.kind.name == kind and (found := each.store.at(place)) is not None:
                return found
        return None

    def pods_of(self, owner_uid: str) -> list[Object]:
        """Return the pods whose controller has this uid."""
        return self._of("Pod").owned(owner_uid)

    def pods_on(self, node: str) -> list[Object]:
        """Return the pods that are bound to a node, those that have ended included."""
        return self._of("Pod").on(node)

    def mentioning(self, kind: str, words: Collection[bytes]) -> Iterator[Object]:
        """Yield the objects of a kind that have one of the words anywhere in their JSON. Of those of one controller the first tells for
        all that they have none: pods differ in little else than their names."""
        without: set[str] = set()
        for each in self._reflectors:
            if each.store.resource.kind.name == kind:
                for found in each.store.entries():
                    if found.owner not in without:
                        if any(word in found.raw for word in words):
                            yield each.store[found.known.uid]
                        elif found.owner:
                            without.add(found.owner)

    def _of(self, kind: str) -> Store:
        return next(each.store for each in self._reflectors if each.store.resource.kind.name == kind)

    # --- news ---------------------------------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Wait until the state is at least as fresh as the moment of this call. Many tasks may ask at once.

        Raises:
            Unreachable: it cannot be told.
        """
        wanted = self._begun + 1
        async with self._refreshing:
            if self._done >= wanted:
                return
            self._begun += 1
            begun = self._begun
            try:
                await asyncio.gather(*(each.refresh() for each in self._reflectors))
            except NotRead as error:
                raise Unreachable(str(error)) from None
            self._done = begun

    async def until(self, found: Callable[[], T | None], seconds: float) -> T | None:
        """Return what ``found`` returns once it is not None; it is asked now and after all news. None when the time is up."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (result := found()) is None:
            left = end - loop.time()
            if left <= 0:
                return None
            if self._news is None:
                self._news = loop.create_future()
            await asyncio.wait([self._news], timeout=left)
        return result

    def _changed(self) -> None:
        news, self._news = self._news, None
        if news is not None:
            news.set_result(None)

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def document(self) -> bytes:
        """Return what ``kubestow capture`` would write now."""
        return self._document(self._entries())

    def snapshot(self) -> Snapshot:
        """Return the snapshot that loading :meth:`document` gives. Of a large cluster that takes seconds, in which no other task goes on.

        Raises:
            InputError: the cluster holds what no snapshot may.
        """
        return from_json(self.document(), self._label)

    async def read_snapshot(self) -> Snapshot:
        """Return the snapshot of now while other tasks go on.

        Raises:
            InputError: the cluster holds what no snapshot may.
        """
        listed = self._entries()
        for entries, keeper in listed:
            for first in range(0, len(entries), _AT_ONCE):
                for each in entries[first : first + _AT_ONCE]:
                    _kept(each, keeper)
                await asyncio.sleep(0)
            keeper.problems.clear()  # they are told again by the document
        return await asyncio.to_thread(lambda: from_json(self._document(listed), self._label))

    @property
    def _label(self) -> str:
        return self._connection.context or "cluster"

    def _entries(self) -> list[tuple[list[Entry], Keeper]]:
        """Return all objects as they are at this moment."""
        stores = [each.store for each in self._reflectors]
        return [(each.entries(), Keeper(each.resource.kind, each.resource.api_version)) for each in stores]

    def _document(self, listed: list[tuple[list[Entry], Keeper]]) -> bytes:
        parts: list[bytes] = []
        problems = list(self.problems)
        for entries, keeper in listed:
            parts += [kept for each in entries if (kept := _kept(each, keeper))]
            problems += keeper.problems
        info = Capture(self._connection.context, now(), self._connection.version, sentences(problems))
        return opening(info) + SEPARATOR.join(parts) + (CLOSING if parts else b"]}\n")


def _kept(found: Entry, keeper: Keeper) -> bytes:
    if not found.kept:
        kept = keeper.single(found.raw)
        found.kept = kept[0] if kept else b""
    return found.kept
