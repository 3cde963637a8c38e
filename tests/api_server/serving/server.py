"""The thread that serves a simulated cluster over HTTP."""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from aiohttp import web

from tests.api_server.core import Entry
from tests.api_server.refusals import Refused, expired
from tests.api_server.serving.faults import Draw
from tests.api_server.serving.frontend import Asked, Frontend, Reply, refusal
from tests.api_server.serving.routes import Route, route
from tests.api_server.serving.watches import Watch
from tests.api_server.simulated_cluster import SimulatedCluster
from tests.api_server.store import Change

_WATCHED = ("true", "1")


class Server:
    """A context manager that serves a simulated cluster on 127.0.0.1. Simulated time advances while it is entered.

    A request with ``Authorization: Bearer NAME`` comes from the actor of that name, any other request from ``client``.
    """

    def __init__(self, world: SimulatedCluster, port: int = 0) -> None:
        self.world = world
        #: Errors in the server itself, raised on exit.
        self.errors: list[str] = []
        #: All requests so far, reads and watches included.
        self.served = 0
        self._port = port
        self._frontend = Frontend(world)
        self._draw = Draw(world.behaviour)
        self._watches: set[Watch] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        self._crash: tuple[int, Callable[[], object], bool] | None = None
        self._dead: set[str] = set()
        #: Actors whose credentials the server refuses (401), also for new watches.
        self.revoked: set[str] = set()

    # --- life -------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, name="api-server", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self.errors:
            raise RuntimeError(self.errors[0])
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self.errors and error is None:
            raise RuntimeError("\n".join(self.errors))

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except OSError as error:
            self.errors.append(str(error))
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._wake = asyncio.Event()
        runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=0.05)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self._port, backlog=4096).start()
        self._port = int(runner.addresses[0][1])
        core = self.world.core
        with core.lock:
            self._began = self._loop.time() - core.clock.now / 1_000_000
            core.clock.on_later = self._on_later
            core.listeners.append(self._hear)
        driver = asyncio.create_task(self._drive())
        self._ready.set()
        await self._stop.wait()
        self._wake.set()
        await driver
        with core.lock:
            core.clock.on_later = lambda: None
            core.listeners.remove(self._hear)
            for watch in self._watches:
                watch.drop()
        await runner.cleanup()

    # --- time -------------------------------------------------------------------------------------------------------

    def _on_later(self) -> None:
        if threading.current_thread() is self._thread:
            self._wake.set()
        else:
            self._loop.call_soon_threadsafe(self._wake.set)

    def _tick(self) -> float | None:
        """Advance the simulated time to the machine's time, and return the seconds until the next event."""
        with self.world.core.lock:
            clock = self.world.core.clock
            passed = round((self._loop.time() - self._began) * 1_000_000)
            if clock.now > passed:  # a test advanced the simulated time
                self._began -= (clock.now - passed) / 1_000_000
                passed = clock.now
            clock.advance(passed)
            due = clock.due()
            return None if due is None else max(0.0, (due - clock.now) / 1_000_000)

    async def _drive(self) -> None:
        while not self._stop.is_set():
            self._wake.clear()
            try:
                pause = self._tick()
            except Exception:  # noqa: BLE001 - raised in the test when it leaves the server
                self.errors.append(traceback.format_exc())
                return
            try:
                await asyncio.wait_for(self._wake.wait(), pause)
            except TimeoutError:
                continue

    # --- what tests ask for -----------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self._port}"

    def kubeconfig(self, path: Path, actor: str = "client", namespace: str = "default") -> Path:
        """Write a kubeconfig file for this server and return its path."""
        path.write_bytes(
            msgspec.yaml.encode(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "stand-in", "cluster": {"server": self.url}}],
                    "users": [{"name": actor, "user": {"token": actor}}],
                    "contexts": [{"name": "stand-in", "context": {"cluster": "stand-in", "user": actor, "namespace": namespace}}],
                    "current-context": "stand-in",
                }
            )
        )
        return path

    def drop_watches(self) -> None:
        """End all open watches without an event."""
        with self.world.core.lock:
            for watch in self._watches:
                watch.drop()

    def expire_watches(self) -> None:
        """Discard all changes, and end all watches with 410."""
        with self.world.core.lock:
            self.world.compact()
            for watch in self._watches:
                watch.fail(expired())

    def crash_client_after(self, number: int, kill: Callable[[], object], *, effect: bool = True) -> None:
        """Call ``kill`` at the client's Nth changing request (from 1), and answer no request from then until ``revive``.

        ``effect``: whether that request still takes effect. The seed decides for other requests in flight. ``kill`` runs in the server's
        thread."""
        self._crash = number, kill, effect

    def revive(self) -> None:
        """Serve the client again, as after a restart."""
        self._dead.clear()

    # --- requests ---------------------------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception:  # noqa: BLE001 - raised in the test when it leaves the server
            self.errors.append(traceback.format_exc())
            return _response(refusal(Refused(500, "InternalError", "the stand-in is broken")))

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        asked = Asked(
            request.method,
            request.path,
            dict(request.query),
            await request.read(),
            request.content_type,
            request.headers.get("Accept", ""),
            token or "client",
        )
        self.served += 1
        if asked.actor in self._dead:
            return _lost(request)
        if asked.actor in self.revoked:
            return _response(refusal(Refused(401, "Unauthorized", "Unauthorized")))
        if asked.method == "GET" and asked.query.get("watch") in _WATCHED and (where := route(asked.path)) is not None:
            return await self._watch(request, asked, where)
        fault, code = self._draw.fault(asked.method, asked.path)
        if self.world.behaviour.latency:
            await asyncio.sleep(self.world.behaviour.latency)
        if fault == "lost before":
            return _lost(request)
        if fault == "throttled":
            headers = {"Retry-After": str(self.world.behaviour.faults.retry_after)}
            return web.Response(status=429, text="Too many requests, please try again later.\n", headers=headers)
        if fault == "error before":
            return _response(_failed(code))
        if asked.actor in self._dead and self.world.core.rng("in flight", asked.method, asked.path).random() < 0.5:
            return _lost(request)
        answer = self._carry_out(asked)
        if pause := self._draw.late(asked.method, asked.path):
            await asyncio.sleep(pause)
        if fault == "lost after" or answer is None or asked.actor in self._dead:
            return _lost(request)
        return _response(_failed(code) if fault == "error after" else answer)

    def _carry_out(self, asked: Asked) -> Reply | None:
        """Process a request with its immediate consequences. Return None if the client is killed at it."""
        with self.world.core.lock:
            self._tick()
            kill: Callable[[], object] | None = None
            if asked.method != "GET" and asked.actor == "client":
                if self._crash is not None and self.world.requests + 1 >= self._crash[0]:
                    _, kill, effect = self._crash
                    self._crash = None
                    self._die(asked.actor)
                    if not effect:
                        kill()
                        return None
                self.world.begin_request()
            answer = self._frontend.answer(asked)
            self.world.run()
        if kill is not None:
            kill()
            return None
        return answer

    def _die(self, actor: str) -> None:
        self._dead.add(actor)
        for watch in self._watches:
            if watch.actor == actor:
                watch.drop()

    # --- watches ----------------------------------------------------------------------------------------------------

    def _hear(self, change: Change, entry: Entry) -> None:
        for watch in self._watches:
            watch.hear(change)

    async def _watch(self, request: web.BaseRequest, asked: Asked, where: Route) -> web.StreamResponse:
        most, gone = self._draw.watch(asked.path)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        with self.world.core.lock:
            try:
                self._frontend.check_rights(asked, where)
                if gone:
                    raise expired()
                watch = Watch(self.world.core, where, asked.query, asked.accept)
            except Refused as refused:
                if refused.code != 410 or self.world.behaviour.gone_as == "status":
                    return _response(refusal(refused))
                watch = Watch(self.world.core, where, {}, asked.accept)
                watch.drop()
                watch.fail(refused)
            watch.most, watch.actor = most, asked.actor
            watch.on_news = lambda: self._news(watch)
            self._watches.add(watch)
        try:
            await response.prepare(request)
            await self._stream(watch, response, asked.path)
        except ConnectionError:
            pass  # the client has left
        finally:
            with self.world.core.lock:
                self._watches.discard(watch)
        return response

    def _news(self, watch: Watch) -> None:
        if threading.current_thread() is self._thread:
            watch.wake.set()
        else:
            self._loop.call_soon_threadsafe(watch.wake.set)

    async def _stream(self, watch: Watch, response: web.StreamResponse, path: str) -> None:
        until = self._loop.time() + watch.seconds if watch.seconds else None
        idle = False
        while True:
            data, closed = watch.take(idle=idle)
            if data:
                await response.write(data)
            if closed or (until is not None and self._loop.time() >= until):
                return
            pause = self.world.behaviour.bookmarks
            if until is not None:
                pause = min(pause, max(0.0, until - self._loop.time()))
            try:
                await asyncio.wait_for(watch.wake.wait(), pause)
                idle = False
                await asyncio.sleep(self._draw.late("WATCH", path))
            except TimeoutError:
                idle = True


def _failed(code: int) -> Reply:
    reasons = {500: "InternalError", 502: "", 503: "ServiceUnavailable", 504: "Timeout"}
    return refusal(
        Refused(code, reasons[code], "etcdserver: request timed out" if code in (500, 504) else "the server is currently unable")
    )


def _response(answer: Reply) -> web.Response:
    return web.Response(status=answer.code, body=answer.body, headers={"Content-Type": "application/json"} | answer.headers)


def _lost(request: web.BaseRequest) -> web.Response:
    """End the connection instead of answering."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
