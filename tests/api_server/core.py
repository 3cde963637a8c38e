"""The core of a simulated cluster: objects, a clock, a log, and the only method that changes objects."""

from __future__ import annotations

import random
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.api_server.behaviour import Behaviour
from tests.api_server.clock import Clock
from tests.api_server.resources import NODES, Resource
from tests.api_server.store import Change, Store

Object = dict[str, Any]
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # the characters of generated names in Kubernetes


@dataclass(frozen=True)
class Caller:
    """The originator of a change, such as ``client``, ``scheduler`` or ``controller``. ``dry`` marks a dry run."""

    name: str
    dry: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the log.

    Attributes:
        time: Seconds on the simulated clock.
        verb: create, update, patch, bind, evict, delete (a pod terminates, or an object is deleted immediately), or gone (a terminated
            object is deleted).
        node: The node of a pod.
        request: Number of the client's latest changing request.
        obj: The object after the change, which must not be modified. None if it was deleted.
    """

    index: int
    time: float
    actor: str
    verb: str
    kind: str
    key: str
    uid: str
    node: str
    version: int
    request: int
    obj: Object | None = field(repr=False, compare=False)


class Core:
    """The shared state. Threads other than the server's must hold ``lock`` for every access."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.lock = threading.RLock()
        self.clock = Clock()
        self.store = Store(behaviour.history)
        self.log: list[Entry] = []
        self.request = 0
        #: Callbacks for every change, called in order.
        self.listeners: list[Callable[[Change, Entry], None]] = []
        self._drawn: Counter[str] = Counter()

    def rng(self, *key: object) -> random.Random:
        """Return a random generator that depends on the seed, the key and the number of calls with this key."""
        name = "/".join(map(str, key))
        self._drawn[name] += 1
        return random.Random(f"{self.behaviour.seed}/{name}/{self._drawn[name]}")

    def suffix(self, *key: object) -> str:
        """Return the five random letters of a generated name."""
        return "".join(self.rng("name", *key).choices(_LETTERS, k=5))

    def new_uid(self, *key: object) -> str:
        """Return a uid."""
        return str(uuid.UUID(int=self.rng("uid", *key).getrandbits(128), version=4))

    def timestamp(self) -> str:
        """Return the time in Kubernetes' format, in whole seconds."""
        return (_BEGIN + timedelta(microseconds=self.clock.now)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def commit(self, caller: Caller, verb: str, resource: Resource, key: str, new: Object | None) -> Object:
        """Store an object under its key, or delete it (None), and return its new or last state.

        An update without changes gets no new resourceVersion. The store takes ownership of ``new``.
        """
        old = self.store.get(resource, key)
        if old is not None and new is not None:
            new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
            if new == old:
                return old
            if resource is not NODES and new.get("spec") != old.get("spec"):
                new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        if caller.dry:
            return new or old or {}
        change = self.store.put(resource, key, new)
        obj = change.new
        node = str((obj.get("spec") or {}).get("nodeName") or "") if resource.kind == "Pod" else ""
        uid = obj["metadata"]["uid"]
        seconds = self.clock.now / 1_000_000
        request = self.request
        entry = (len(self.log), seconds, caller.name, verb, resource.kind, key, uid, node, change.version, request, change.now)
        self.log.append(Entry(*entry))
        for listener in self.listeners:
            listener(change, self.log[-1])
        return obj
