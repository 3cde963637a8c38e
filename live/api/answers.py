"""Answers of an API server, and the protocol for sending requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypedDict, Unpack

Object = dict[str, Any]
#: Body of a request: an object, or the operations of a JSON patch.
Body = Object | list[Object]


class Unreachable(Exception):
    """No answer: the server cannot be reached, or the connection was lost. The request may have been executed."""


class Unauthorized(Unreachable):
    """The server refuses the credentials (401), even after they were read again. The request was not executed.

    The text is a sentence, the same for all such requests, so that a run reports it once.
    """

    def __init__(self, answer: ServerAnswer) -> None:
        super().__init__(f"the API server refuses the credentials: {answer.message} (HTTP {answer.code})")
        self.answer = answer


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """An answer of the server.

    Attributes:
        code: HTTP status.
        body: Decoded JSON; a ``Status`` object if the server refuses.
        retry_after: Seconds to wait before a retry; None if the server names none.
    """

    code: int
    body: Object = field(default_factory=dict)
    retry_after: float | None = None

    @property
    def ok(self) -> bool:
        """True if the request succeeded."""
        return 200 <= self.code < 300

    @property
    def reason(self) -> str:
        """The ``reason`` of a Status, such as ``Conflict`` or ``TooManyRequests``; empty without one."""
        return "" if self.ok else str(self.body.get("reason") or "")

    @property
    def message(self) -> str:
        """The message of a Status, or the HTTP status; empty on success."""
        return "" if self.ok else str(self.body.get("message") or f"HTTP {self.code}")


class Sent(TypedDict, total=False):
    """Optional parts of a request: URL parameters, and the type of a PATCH body (default ``merge``)."""

    params: Mapping[str, str] | None
    patch: Literal["merge", "json", "strategic"]


class Api(Protocol):
    """A client of one API server."""

    async def send(self, method: str, path: str, body: Body | None = None, **more: Unpack[Sent]) -> ServerAnswer:
        """Send one request and return the answer with any status.

        GET, PATCH and DELETE are retried after a lost connection. All methods are retried after 429 (except for evictions), 500, 502, 503
        and 504. There are a few attempts with growing pauses.

        Raises:
            Unauthorized: the server refuses the credentials.
            Unreachable: there was no answer.
        """
        ...
