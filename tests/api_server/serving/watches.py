"""Watches: streams of changes since a resourceVersion."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tests.api_server.core import Core
from tests.api_server.refusals import Refused, expired
from tests.api_server.serving.routes import Route
from tests.api_server.serving.views import View
from tests.api_server.store import Change

Object = dict[str, Any]
_INITIAL_END = "k8s.io/initial-events-end"


def _line(kind: str, obj: Object) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


class Watch:
    """One watch. It ends after ``most`` events (0: never). ``closed`` is set when it has ended or is about to."""

    def __init__(self, core: Core, route: Route, query: Mapping[str, str], accept: str) -> None:
        self.core, self._resource = core, route.resource
        self.actor = ""
        self._view = View(route, query, accept)
        self._bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
        self._initial = query.get("sendInitialEvents") in ("true", "1")
        self.seconds = float(query.get("timeoutSeconds") or 0)
        self._lines: deque[bytes] = deque()
        self.wake = asyncio.Event()
        self.on_news: Callable[[], None] = self.wake.set
        self.closed = False
        self.most = 0
        self.sent = 0
        self._start(query.get("resourceVersion", ""))

    def _start(self, version: str) -> None:
        """Queue the initial events.

        Raises:
            Refused: 410 if the version is too old.
        """
        store = self.core.store
        if version not in ("", "0") and not self._initial:
            if not version.isdigit():
                raise Refused(400, "BadRequest", f'Invalid value: "{version}": strconv.ParseUint: parsing "{version}": invalid syntax')
            if int(version) < store.compacted:
                raise expired(f"too old resource version: {version} ({store.compacted})")
            for change in store.since(int(version)):
                self.hear(change)
            return
        for obj in store.all(self._resource).values():
            if self._view.shows(obj):
                self._lines.append(_line("ADDED", self._view.of(obj)))
        if self._initial:
            self._lines.append(self._bookmark({_INITIAL_END: "true"}))

    def hear(self, change: Change) -> None:
        """Queue a change if the watch selects it."""
        if change.resource is not self._resource:
            return
        if self._view.whole:
            self._lines.append(change.encoded)
        else:
            was, is_ = self._view.shows(change.old), self._view.shows(change.now)
            if not was and not is_:
                return
            kind = "MODIFIED" if was and is_ else "ADDED" if is_ else "DELETED"
            self._lines.append(_line(kind, self._view.of(change.new)))
        self.on_news()

    def fail(self, refused: Refused) -> None:
        """Send the client an error event, and end the watch."""
        self._lines.append(_line("ERROR", refused.status()))
        self.closed = True
        self.on_news()

    def drop(self) -> None:
        """End the watch without an event."""
        self._lines.clear()
        self.closed = True
        self.on_news()

    def take(self, *, idle: bool) -> tuple[bytes, bool]:
        """Return the text to send now, and whether the watch then ends.

        If nothing else is queued and the watch is ``idle``, the text is a bookmark, if requested.
        """
        with self.core.lock:
            self.wake.clear()
            lines = list(self._lines)
            self._lines.clear()
            closed = self.closed
            if not lines and idle and self._bookmarks and not closed:
                lines = [self._bookmark({})]
        if self.most and self.sent + len(lines) >= self.most:
            lines, closed = lines[: self.most - self.sent], True
        self.sent += len(lines)
        return b"".join(lines), closed

    def _bookmark(self, annotations: dict[str, str]) -> bytes:
        metadata: Object = {"resourceVersion": str(self.core.store.version), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        obj = {"kind": self._resource.kind, "apiVersion": self._resource.api_version, "metadata": metadata}
        return _line("BOOKMARK", obj)
