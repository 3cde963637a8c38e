"""The current state of a cluster: all kinds of a snapshot, kept current by lists and watches."""

from __future__ import annotations

import asyncio
from collections import ChainMap
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, TypeVar

from kubestow.live.api.answers import Object, Unreachable
from kubestow.live.api.connection import Connection
from kubestow.live.api.discovery import discover
from kubestow.live.api.reflector import NotRead, Reflector
from kubestow.live.api.store import Store, StoredObject
from kubestow.live.capture import CLOSING, SEPARATOR, now, opening, sentences
from kubestow.live.redact import Keeper
from kubestow.models.snapshot.capture_info import Capture
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_json

T = TypeVar("T")

#: Kinds that must be readable.
_ESSENTIAL: Final = ("Pod", "Node")
_REFUSALS: Final = (403, 404, 405)
#: Objects redacted in one go, before other tasks run.
_BATCH_OBJECTS: Final = 500
#: Time limit in seconds for opening all watches.
_OPEN_TIMEOUT_SECONDS: Final = 30.0


class LiveCluster:
    """A current copy of a cluster. Callers must not change the returned objects.

    Attributes:
        problems: Kinds or objects that cannot be read, one line each.
        notes: Other remarks.
    """

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
            InputError: pods or nodes cannot be read or watched, or the server does not answer.
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
        self.problems = [f"{name}: the server does not list it" for name in found.served.lacking] + found.problems
        if found.served.absent:
            self.notes.append("not on this server: " + ", ".join(found.served.absent))
        lacking = [name for name in _ESSENTIAL if name in found.served.lacking]
        if lacking:
            raise InputError([f"the server does not list {' and '.join(lacking)}; expected a Kubernetes API server"])
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
            f"{each.store.resource.label}: the server gives resourceVersion {each.store.unordered!r}, which is not a number: "
            "readings count in their order of arrival"
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
        """Wait until all watches are open or refused. A refused kind is updated by ``refresh`` only."""
        opening_all = asyncio.gather(*(each.opened.wait() for each in self._reflectors))
        try:
            async with asyncio.timeout(_OPEN_TIMEOUT_SECONDS):
                await opening_all
        except TimeoutError:
            raise Unreachable(f"the server opens no watches for {_OPEN_TIMEOUT_SECONDS:g} s") from None
        for each in self._reflectors:
            if each.refused and each.store.resource.kind.name in _ESSENTIAL:
                raise InputError([f"{each.refused}; expected the right to get, list and watch {each.store.resource.label}"])
            if each.refused:
                self.notes.append(f"no watch, so it is read before each wave instead: {each.refused}")

    async def close(self) -> None:
        """End all watches, but not the connection."""
        for task in self._watches:
            task.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        self._watches = []

    # --- contents -----------------------------------------------------------------------------------------------------

    def objects(self, kind: str) -> Mapping[str, Object]:
        """Return the objects of a kind by uid, without managed fields. The mapping changes with the cluster."""
        stores = [each.store for each in self._reflectors if each.store.resource.kind.name == kind]
        if len(stores) == 1:
            return stores[0]
        return ChainMap(*stores)  # type: ignore[arg-type] # several groups may have a kind of this name; read-only

    def pod(self, uid: str) -> Object | None:
        """Return the pod with this uid; None if there is none."""
        return self._of("Pod").get(uid)

    def node(self, name: str) -> Object | None:
        """Return the node with this name; None if there is none."""
        return self.named("Node", name)

    def named(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """Return the object with this name; None if there is none."""
        place = f"{namespace}/{name}" if namespace else name
        for each in self._reflectors:
            if each.store.resource.kind.name == kind and (found := each.store.at(place)) is not None:
                return found
        return None

    def pods_of(self, owner_uid: str) -> list[Object]:
        """Return the pods whose controller has this uid."""
        return self._of("Pod").owned(owner_uid)

    def pods_on(self, node: str) -> list[Object]:
        """Return the pods bound to a node, including finished ones."""
        return self._of("Pod").on(node)

    def mentioning(self, kind: str, words: Collection[bytes]) -> Iterator[Object]:
        """Yield the objects of a kind whose JSON contains one of the words.

        If the first object of a controller has none, the others are skipped, because pods of a controller are nearly equal.
        """
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
        """Wait until the state is at least as recent as this call. Concurrent calls share the work.

        Raises:
            Unreachable: the server does not answer.
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
        """Call ``found`` now and after every change until it returns a value; return it, or None after the time limit."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (result := found()) is None:
            remaining_seconds = end - loop.time()
            if remaining_seconds <= 0:
                return None
            if self._news is None:
                self._news = loop.create_future()
            await asyncio.wait([self._news], timeout=remaining_seconds)
        return result

    def _changed(self) -> None:
        news, self._news = self._news, None
        if news is not None:
            news.set_result(None)

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def document(self) -> bytes:
        """Return the current snapshot as ``kubestow capture`` would write it."""
        return self._document(self._entries())

    def snapshot(self) -> Snapshot:
        """Return the current snapshot. For a large cluster this blocks all tasks for seconds.

        Raises:
            InputError: the cluster has objects that are invalid in a snapshot.
        """
        return from_json(self.document(), self._label)

    async def read_snapshot(self) -> Snapshot:
        """Return the current snapshot while other tasks continue.

        Raises:
            InputError: the cluster has objects that are invalid in a snapshot.
        """
        listed = self._entries()
        for entries, keeper in listed:
            for first in range(0, len(entries), _BATCH_OBJECTS):
                for each in entries[first : first + _BATCH_OBJECTS]:
                    _kept(each, keeper)
                await asyncio.sleep(0)
            keeper.problems.clear()  # the document lists them again
        return await asyncio.to_thread(lambda: from_json(self._document(listed), self._label))

    @property
    def _label(self) -> str:
        return self._connection.context or "cluster"

    def _entries(self) -> list[tuple[list[StoredObject], Keeper]]:
        """Return all objects in their current state."""
        stores = [each.store for each in self._reflectors]
        return [(each.entries(), Keeper(each.resource.kind, each.resource.api_version)) for each in stores]

    def _document(self, listed: list[tuple[list[StoredObject], Keeper]]) -> bytes:
        parts: list[bytes] = []
        problems = list(self.problems)
        for entries, keeper in listed:
            parts += [kept for each in entries if (kept := _kept(each, keeper))]
            problems += keeper.problems
        info = Capture(self._connection.context, now(), self._connection.version, sentences(problems))
        return opening(info) + SEPARATOR.join(parts) + (CLOSING if parts else b"]}\n")


def _kept(found: StoredObject, keeper: Keeper) -> bytes:
    if not found.kept:
        kept = keeper.single(found.raw)
        found.kept = kept[0] if kept else b""
    return found.kept
