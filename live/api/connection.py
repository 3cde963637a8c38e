"""Requests to one API server: limited parallelism, safe retries, and renewal of credentials."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, Unpack
from urllib.parse import urlencode, urlsplit

import aiohttp
import msgspec
from yarl import URL

from kubestow.live.api import kubeconfig
from kubestow.live.api.answers import Body, Object, Sent, ServerAnswer, Unauthorized, Unreachable
from kubestow.live.api.exec_plugin import CredentialsError
from kubestow.live.api.kubeconfig import ApiTarget
from kubestow.live.api.session import Session, open_session
from kubestow.models.snapshot.snapshot import InputError

#: Statuses after which a request is retried: the server is busy, or a part of the network is broken.
_RETRIED_STATUSES: Final = frozenset({429, 500, 502, 503, 504})
#: Methods that may be executed twice.
_REPEATABLE: Final = frozenset({"GET", "PATCH", "DELETE"})
_PATCHES: Final = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
#: Maximum Retry-After in seconds; with a longer one, the answer is returned.
_MAX_RETRY_AFTER_SECONDS: Final = 30.0
#: Credentials are renewed this long before they expire.
_RENEWAL_MARGIN: Final = timedelta(seconds=30)
#: Minimum seconds between renewals after refused credentials.
_MIN_RENEWAL_SECONDS: Final = 10.0
#: Maximum length of foreign text in messages, in characters.
_MAX_SHOWN_CHARACTERS: Final = 200


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits of a connection.

    Attributes:
        in_flight: Requests at a time, except watches.
        tries: Maximum number of attempts for a request.
        pause: Seconds before the second attempt, doubled before each further one, with random jitter.
        timeout: Seconds for an answer.
        connect: Seconds for a connection.
        silence: Seconds without data on a watch, which has a bookmark every minute.
    """

    in_flight: int = 32
    tries: int = 8
    pause: float = 0.1
    timeout: float = 60.0
    connect: float = 10.0
    silence: float = 180.0


class WatchRefused(Exception):
    """The server answers but does not open a watch."""

    def __init__(self, answer: ServerAnswer) -> None:
        super().__init__(answer.message)
        self.answer = answer


class _Lost(Exception):
    """A lost request. ``unsent``: it did not reach the server. ``slow``: the answer timed out."""

    def __init__(self, message: str, *, unsent: bool = False, slow: bool = False) -> None:
        super().__init__(message)
        self.unsent = unsent
        self.slow = slow


class _Call(NamedTuple):
    """A request without the session that sends it. ``url``: path and query, quoted."""

    method: str
    url: str
    headers: Mapping[str, str] = {}
    body: Body | None = None


class Connection:
    """An :class:`~kubestow.live.api.answers.Api`, made by :func:`kubestow.live.api.connect.connect`.

    Attributes:
        context: Name of the context; empty in a pod of the cluster.
        version: Version of the server, such as ``v1.36.2``; empty if unknown.
    """

    version = ""

    def __init__(self, target: ApiTarget | None, session: Session, given: str | None, limits: ConnectionLimits) -> None:
        """Keep the session, and the kubeconfig ``given`` by the caller, which is read again when credentials are refused."""
        self.context = target.context if target is not None else ""
        self.server = session.server
        self._target = target
        self._kubeconfig = given
        self._session = session
        self._past: list[Session] = []
        self._limits = limits
        self._free = asyncio.Semaphore(limits.in_flight)
        self._renewing = asyncio.Lock()
        self._renewed = float("-inf")

    async def close(self) -> None:
        """Close all connections."""
        for session in (*self._past, self._session):
            await session.client.close()

    async def send(self, method: str, path: str, body: Body | None = None, **more: Unpack[Sent]) -> ServerAnswer:
        """Send one request and return the answer; see :meth:`kubestow.live.api.answers.Api.send`.

        Raises:
            Unauthorized: the server refuses the credentials.
            Unreachable: there was no answer.
            ValueError: a JSON patch is not a list, or another patch is one. The library would send another kind of patch.
        """
        patch = more.get("patch", "merge")
        headers = {"Content-Type": _PATCHES[patch]} if method == "PATCH" else {}
        if headers and (patch == "json") != isinstance(body, list):
            raise ValueError(f"{method} {path}: a JSON patch is a list, and no other patch is one")
        answer, data = _accepted(*await self._answered(_Call(method, _url(path, more.get("params")), headers, body)))
        if answer.ok and data.strip():
            try:
                return ServerAnswer(answer.code, msgspec.json.decode(data), answer.retry_after)
            except (ValueError, RecursionError):
                raise Unreachable(f"{method} {path}: the answer is not JSON: {_shown(data)}") from None
        return answer

    async def read(
        self, path: str, params: Mapping[str, str] | None = None, *, accept: str = "application/json"
    ) -> tuple[ServerAnswer, bytes]:
        """Send a GET and return the answer with its raw bytes. ``ServerAnswer.body`` is empty unless the server refuses.

        Raises:
            Unauthorized: the server refuses the credentials.
            Unreachable: there was no answer.
        """
        return _accepted(*await self._answered(_Call("GET", _url(path, params), {"Accept": accept})))

    async def probe(self) -> ServerAnswer:
        """Request the server's version, without retries if the server is not listening.

        Raises:
            Unreachable: there was no answer.
        """
        answer, data = await self._answered(_Call("GET", "/version"), patient=False)
        return ServerAnswer(answer.code, _object(data), answer.retry_after) if answer.ok else answer

    async def watch(self, path: str, params: Mapping[str, str]) -> AsyncIterator[list[bytes]]:
        """Open a watch and yield its events in batches as they arrive, each a line of JSON.

        Raises:
            Refused: the server does not open the watch.
            Unreachable: the connection cannot be made or breaks.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._limits.connect, sock_read=self._limits.silence)
        url = _url(path, params)
        response = await self._stream(url, timeout)
        incomplete = b""
        try:
            yield []  # signals that the watch is open
            async for chunk in response.content.iter_any():
                *lines, incomplete = (incomplete + chunk).split(b"\n")
                if lines:
                    yield [line for line in lines if line.strip()]
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(_words(error, self._limits.silence)) from None
        finally:
            response.close()

    async def _stream(self, url: str, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        for again in (True, False):
            session = await self._current()
            try:
                response = await self._request(session, _Call("GET", url), timeout)
                if response.status == 200:
                    return response
                async with asyncio.timeout(self._limits.timeout):
                    data = await response.read()
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise Unreachable(_words(error, self._limits.connect)) from None
            if response.status != 401 or not again or not await self._renew(session):
                break
        raise WatchRefused(_answer(response, data))

    # --- one request --------------------------------------------------------------------------------------------------

    async def _answered(self, call: _Call, *, patient: bool = True) -> tuple[ServerAnswer, bytes]:
        """Send a request with retries. ``patient``: retry even if the server is not listening."""
        method, url = call.method, call.url.partition("?")[0]
        evicts = method == "POST" and url.endswith("/eviction")
        pause, slow = self._limits.pause, 0
        for remaining_tries in reversed(range(self._limits.tries)):
            requested_pause = 0.0
            try:
                async with self._free:
                    answer, data = await self._authorised(call)
            except _Lost as lost:
                slow += lost.slow
                again = patient if lost.unsent else method in _REPEATABLE
                if not remaining_tries or slow > 1 or not again:
                    raise Unreachable(f"{method} {url}: {lost}") from None
            else:
                requested_pause = answer.retry_after or 0.0
                if (
                    not remaining_tries
                    or answer.code not in _RETRIED_STATUSES
                    or (evicts and answer.code == 429)
                    or requested_pause > _MAX_RETRY_AFTER_SECONDS
                ):
                    return answer, data
            await asyncio.sleep(max(requested_pause, pause * random.uniform(0.5, 1)))
            pause *= 2
        raise AssertionError("the last attempt returns or raises")

    async def _authorised(self, call: _Call) -> tuple[ServerAnswer, bytes]:
        session = await self._current()
        answer, data = await self._once(session, call)
        if answer.code == 401 and await self._renew(session):
            return await self._once(self._session, call)
        return answer, data

    async def _once(self, session: Session, call: _Call) -> tuple[ServerAnswer, bytes]:
        timeout = aiohttp.ClientTimeout(total=self._limits.timeout, sock_connect=self._limits.connect)
        try:
            response = await self._request(session, call, timeout)
            data = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            unsent = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | aiohttp.ClientHttpProxyError)
            slow = isinstance(error, TimeoutError) or _about_trust(error)
            seconds = self._limits.connect if unsent else self._limits.timeout
            raise _Lost(_words(error, seconds), unsent=unsent, slow=slow) from None
        return _answer(response, data), data

    async def _request(self, session: Session, call: _Call, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        sent = session.headers.copy()
        sent.update(call.headers)
        address = URL(session.server + call.url, encoded=True)  # already quoted
        found = await session.client.request(call.method, address, headers=sent, body=call.body, _request_timeout=timeout)
        response: aiohttp.ClientResponse = found.response
        return response

    # --- credentials --------------------------------------------------------------------------------------------------

    async def _current(self) -> Session:
        """Return the session; replace it if its credentials are about to expire."""
        session = self._session
        if session.expires is not None and datetime.now(UTC) > session.expires - _RENEWAL_MARGIN:
            await self._renew(session)
        return self._session

    async def _renew(self, refused: Session) -> bool:
        """Return True if there is a newer session than the refused one. Of many concurrent tasks, only one logs in."""
        async with self._renewing:
            now = asyncio.get_running_loop().time()
            if self._session is not refused:
                return True
            if now - self._renewed < _MIN_RENEWAL_SECONDS:
                return False
            self._renewed = now
            try:
                fresh = await open_session(self._again())
            except CredentialsError as error:
                raise _Lost(str(error), unsent=True, slow=True) from None
            self._past.append(self._session)
            self._session = fresh
            return True

    def _again(self) -> ApiTarget | None:
        """Read the kubeconfig again, because kubectl may have stored a new token. The server never changes."""
        if self._target is None:
            return None
        try:
            found = kubeconfig.resolve(self._kubeconfig, self._target.context)
        except InputError:
            found = None
        if found is not None and found.cluster == self._target.cluster:
            self._target = found
        return self._target


def _accepted(answer: ServerAnswer, data: bytes) -> tuple[ServerAnswer, bytes]:
    if answer.code == 401:
        raise Unauthorized(answer)
    return answer, data


def _url(path: str, params: Mapping[str, str] | None) -> str:
    return f"{path}?{urlencode(params)}" if params else path


def _answer(response: aiohttp.ClientResponse, data: bytes) -> ServerAnswer:
    pause_header = response.headers.get("Retry-After", "")
    retry_after = float(pause_header) if pause_header.isascii() and pause_header.isdigit() else None
    if 200 <= response.status < 300:
        return ServerAnswer(response.status, {}, retry_after)
    body = _object(data)
    if not body.get("message"):
        shown = _shown(data)
        body = {**body, "message": f"HTTP {response.status}{': ' if shown else ''}{shown}"}
    return ServerAnswer(response.status, body, retry_after)


def _object(data: bytes) -> Object:
    try:
        found = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _shown(data: bytes) -> str:
    text = " ".join(data[: 4 * _MAX_SHOWN_CHARACTERS].decode(errors="replace").split())[:_MAX_SHOWN_CHARACTERS]
    return "".join(c if c.isprintable() else "?" for c in text)


def _about_trust(error: BaseException) -> bool:
    """Return True for TLS errors, which a retry would not fix."""
    return isinstance(error, aiohttp.ClientSSLError | ssl.SSLError)


def _words(error: BaseException, seconds: float) -> str:
    """Return a short reason for a missing answer."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
        return f"the server's certificate is not trusted: {reason}"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy refuses the connection: {error.status} {error.message}"
    if isinstance(error, TimeoutError):
        return f"no answer for {seconds:g} s"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the connection was closed before there was an answer"
    cause: Any = getattr(error, "os_error", error)
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return f"the proxy cannot be reached: {_plain(cause)}"
    return _plain(cause)


def _plain(error: Any) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS fails: {str(error.reason or error).replace('_', ' ').lower()}"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if text.startswith("Connect call failed"):
        return "connection refused"
    return " ".join(str(text).split())[:_MAX_SHOWN_CHARACTERS]


def host_of(server: str) -> str:
    """Return host and port of a server's URL, for messages."""
    return urlsplit(server).netloc.rpartition("@")[2] or server
