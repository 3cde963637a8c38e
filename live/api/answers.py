"""What an API server answers, and what carries the requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypedDict, Unpack

Object = dict[str, Any]
#: What is sent: an object, or the operations of a JSON patch.
Body = Object | list[Object]


class Unreachable(Exception):
    """No answer: the server cannot be reached, or the connection was lost. Whether the request was carried out is not known."""


class Unauthorized(Unreachable):
    """The server refuses the credentials (401), also after they were read again. Nothing was carried out; the text is a sentence.

    All requests that meet this say the same sentence, so that a run reports it once.
    """

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"the API server refuses the credentials: {answer.message} (HTTP {answer.code})")
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Answer:
    """``code``: the HTTP status. ``body``: the decoded JSON, a ``Status`` where the server refuses. ``retry_after``: seconds, where the
    server names some."""

    code: int
    body: Object = field(default_factory=dict)
    retry_after: float | None = None

    @property
    def ok(self) -> bool:
        """Return whether the server did what was asked."""
        return 200 <= self.code < 300

    @property
    def reason(self) -> str:
        """Return the ``reason`` of a Status: ``Conflict``, ``NotFound``, ``TooManyRequests`` …, empty where there is none."""
        return "" if self.ok else str(self.body.get("reason") or "")

    @property
    def message(self) -> str:
        """Return what a Status says, or the HTTP status."""
        return "" if self.ok else str(self.body.get("message") or f"HTTP {self.code}")


class Sent(TypedDict, total=False):
    """What else a request may have. ``patch``: how the body of a PATCH is meant, ``merge`` where nothing is said."""

    params: Mapping[str, str] | None
    patch: Literal["merge", "json", "strategic"]


class Api(Protocol):
    """Sends requests to one API server."""

    async def send(self, method: str, path: str, body: Body | None = None, **more: Unpack[Sent]) -> Answer:
        """Send one request and return the answer, whatever its status.

        GET, PATCH and DELETE are sent again after a lost connection, and all methods after 429 (other than of an eviction), 500, 502, 503
        and 504, a few times, with growing pauses.

        Raises:
            Unauthorized: the server refuses the credentials.
            Unreachable: no answer came.
        """
        ...
