"""Requests are sent in parallel, again where that is safe, and never otherwise."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from kubestow.live.api.answers import Body, Unauthorized, Unreachable
from kubestow.live.api.connect import connect
from kubestow.live.api.connection import Connection, ConnectionLimits
from tests.live.api.server import Server, cut, kubeconfig, once, serving, status
from tests.objects import node, pod

FAST = ConnectionLimits(pause=0.001, tries=5)
POD = "/api/v1/namespaces/default/pods/p"


def talk(tmp_path: Path, server: Server, use: Callable[[Connection], Awaitable[None]], limits: ConnectionLimits = FAST) -> None:
    async def run() -> None:
        async with serving(server), connect(kubeconfig(tmp_path / "config", server.url), limits=limits) as connection:
            await use(connection)

    asyncio.run(asyncio.wait_for(run(), 60))


def ok() -> web.Response:
    return web.json_response({"kind": "Status", "status": "Success"}, status=201)


def test_answers_have_code_body_and_reason(tmp_path: Path) -> None:
    server = Server()
    server.put(pod("p"))

    async def use(api: Connection) -> None:
        found = await api.send("GET", POD)
        assert (found.ok, found.code, found.body["metadata"]["name"], found.message) == (True, 200, "p", "")
        missing = await api.send("GET", POD + "q")
        assert (missing.ok, missing.code, missing.reason, missing.message) == (False, 404, "NotFound", "pods 'pq' not found")
        server.faults += once("GET", POD, lambda: web.Response(status=418, text="<html>\n<h1>teapot</h1>"))
        odd = await api.send("GET", POD)
        assert (odd.code, odd.message) == (418, "HTTP 418: <html> <h1>teapot</h1>")

    talk(tmp_path, server, use)


@pytest.mark.parametrize(("patch", "kind"), [("merge", "merge-patch"), ("json", "json-patch"), ("strategic", "strategic-merge-patch")])
def test_requests_carry_what_they_are_given(tmp_path: Path, patch: str, kind: str) -> None:
    server = Server()
    server.faults += once("PATCH", POD, ok)
    server.faults += once("DELETE", POD, ok)

    async def use(api: Connection) -> None:
        sent: Body = (
            {"metadata": {"labels": {"ä": "ö"}}} if patch != "json" else [{"op": "add", "path": "/metadata/labels/ä", "value": "ö"}]
        )
        answer = await api.send("PATCH", POD, sent, params={"fieldManager": "a b&c"}, patch=patch)  # type: ignore[arg-type]
        assert answer.code == 201
        assert (await api.send("DELETE", POD, {"preconditions": {"uid": "u"}})).ok
        (_, path, headers, body), (*_, deletion) = server.requests[-2:]
        assert path == f"{POD}?fieldManager=a+b%26c"
        assert headers["Content-Type"] == f"application/{kind}+json"
        assert headers["User-Agent"] == "kubestow"
        assert body == sent
        assert deletion == {"preconditions": {"uid": "u"}}

    talk(tmp_path, server, use)


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE", "POST"])
@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
def test_what_is_busy_is_asked_again(tmp_path: Path, method: str, code: int) -> None:
    server = Server()
    server.faults += [*once(method, POD, lambda: status(code, "Busy", "later"), 4), *once(method, POD, ok)]

    async def use(api: Connection) -> None:
        assert (await api.send(method, POD + "/binding", {} if method != "GET" else None)).code == 201
        server.faults += [*once(method, POD, lambda: status(code, "Busy", "later"), 9)]
        assert (await api.send(method, POD + "/binding", {} if method != "GET" else None)).code == code
        assert server.asked(method, POD) == 10

    talk(tmp_path, server, use)


@pytest.mark.parametrize("code", [400, 401, 403, 404, 405, 409, 422])
def test_what_is_refused_is_not_asked_again(tmp_path: Path, code: int) -> None:
    server = Server()
    server.faults += once("POST", POD, lambda: status(code, "No", "no"), 9)

    async def use(api: Connection) -> None:
        if code == 401:
            with pytest.raises(Unauthorized):
                await api.send("POST", POD + "/binding", {})
        else:
            assert (await api.send("POST", POD + "/binding", {})).code == code
        assert server.asked("POST", POD) == (2 if code == 401 else 1)  # the kubeconfig may have another token by now

    talk(tmp_path, server, use)


def test_an_eviction_that_a_budget_forbids_is_not_asked_again(tmp_path: Path) -> None:
    server = Server()
    server.faults += once("POST", "/eviction", lambda: status(429, "TooManyRequests", "budget", Retry_After="10"), 9)

    async def use(api: Connection) -> None:
        answer = await api.send("POST", POD + "/eviction", {})
        assert (answer.code, answer.retry_after, answer.message) == (429, 10.0, "budget")
        assert server.asked("POST", "/eviction") == 1

    talk(tmp_path, server, use)


@pytest.mark.full
def test_a_pause_that_the_server_asks_for_is_kept(tmp_path: Path) -> None:
    server = Server()
    server.faults += once("GET", POD, lambda: status(429, "TooManyRequests", "later", Retry_After="1"))
    server.put(pod("p"))

    async def use(api: Connection) -> None:
        began = time.monotonic()
        assert (await api.send("GET", POD)).ok
        assert time.monotonic() - began >= 1
        server.faults += once("GET", POD, lambda: status(503, "Unavailable", "in an hour", Retry_After="3600"))
        assert (await api.send("GET", POD)).retry_after == 3600

    talk(tmp_path, server, use)


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_after_a_lost_connection_what_may_be_done_twice_is_sent_again(tmp_path: Path, method: str) -> None:
    server = Server()
    server.faults += [*cut(method, POD, 3), *once(method, POD, ok)]

    async def use(api: Connection) -> None:
        assert (await api.send(method, POD)).ok

    talk(tmp_path, server, use)


def test_after_a_lost_connection_nothing_is_posted_twice(tmp_path: Path) -> None:
    server = Server()
    server.faults += cut("POST", POD)

    async def use(api: Connection) -> None:
        with pytest.raises(Unreachable, match=r"^POST .*/pods/p/binding: .+"):
            await api.send("POST", POD + "/binding", {})
        assert server.asked("POST", POD) == 1

    talk(tmp_path, server, use)


def test_a_server_that_is_away_for_a_moment_is_waited_for_whatever_was_to_be_sent(tmp_path: Path) -> None:
    async def run() -> None:
        first, second = Server(), Server()
        async with serving(first):
            port = int(first.url.rpartition(":")[2])
            connecting = connect(kubeconfig(tmp_path / "config", first.url), limits=ConnectionLimits(pause=0.05))
            api = await connecting.__aenter__()
        sent = asyncio.create_task(api.send("POST", POD + "/binding", {}))
        await asyncio.sleep(0.05)
        second.faults += once("POST", POD, ok)
        async with serving(second, port=port):
            assert (await sent).code == 201
        await connecting.__aexit__(None, None, None)

    asyncio.run(run())


def test_a_server_that_stays_away_is_unreachable(tmp_path: Path) -> None:
    async def run() -> None:
        server = Server()
        async with serving(server):
            connecting = connect(kubeconfig(tmp_path / "config", server.url), limits=FAST)
            api = await connecting.__aenter__()
        with pytest.raises(Unreachable, match=r"^GET /version: connection refused$"):
            await api.send("GET", "/version")
        await connecting.__aexit__(None, None, None)

    asyncio.run(run())


def test_a_server_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    server = Server()
    server.silent.add(POD)

    async def use(api: Connection) -> None:
        with pytest.raises(Unreachable, match=r"no answer for 0\.05 s"):
            await api.send("GET", POD)
        assert server.asked("GET", POD) == 2

    talk(tmp_path, server, use, ConnectionLimits(pause=0.001, timeout=0.05))


@pytest.mark.full
def test_hundreds_of_requests_go_out_at_a_time_as_many_as_the_limit_and_over_few_connections(tmp_path: Path) -> None:
    server = Server(slow=0.01)
    server.put(node("n"))

    async def use(api: Connection) -> None:
        answers = await asyncio.gather(*(api.send("GET", "/api/v1/nodes/n") for _ in range(300)))
        assert all(each.ok for each in answers)
        assert server.most == 8
        assert len(server.peers) <= 9

    talk(tmp_path, server, use, ConnectionLimits(in_flight=8))
