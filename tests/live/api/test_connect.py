"""The way in: certificates, tokens, plugins and proxies, with a real server and real programs on this machine."""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import os
import ssl
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web
from kubernetes.aio.config import incluster_config

from kubestow.live.api.answers import Unauthorized
from kubestow.live.api.connect import connect
from kubestow.live.api.connection import ConnectionLimits
from kubestow.models.snapshot.snapshot import InputError
from tests.live.api.server import Object, Server, kubeconfig, once, serving, status
from tests.objects import node

FAST = ConnectionLimits(pause=0.001, tries=3, connect=2)


@functools.cache
def authority() -> trustme.CA:
    return trustme.CA()


def tls(*names: str, clients: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority().issue_cert(*(names or ("127.0.0.1",))).configure_cert(context)
    if clients:
        authority().configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def encoded(*parts: trustme.Blob) -> str:
    return base64.b64encode(b"".join(part.bytes() for part in parts)).decode()


def authority_data() -> str:
    return encoded(authority().cert_pem)


def secured(path: Path, server: Server, user: Object | None = None, cluster: Object | None = None) -> str:
    return kubeconfig(path / "config", server.url, user, {"certificate-authority-data": authority_data(), **(cluster or {})})


async def version(path: str | None, context: str | None = None) -> str:
    async with connect(path, context, limits=FAST) as connection:
        return connection.version


def problem(path: str, context: str | None = None) -> str:
    with pytest.raises(InputError) as error:
        asyncio.run(version(path, context))
    (line,) = error.value.problems
    assert line.isprintable()
    return line


def run(server: Server, use: Callable[[], Awaitable[None]], context: ssl.SSLContext | None = None) -> None:
    async def main() -> None:
        async with serving(server, context or tls()):
            await use()

    asyncio.run(asyncio.wait_for(main(), 60))


async def refused(path: str) -> str:
    """Return the messages about a kubeconfig while its server runs."""
    with pytest.raises(InputError) as error:
        await version(path)
    (line,) = error.value.problems
    assert line.isprintable()
    return line


# --- tokens and certificates ----------------------------------------------------------------------------------------


def test_a_token_is_shown_to_servers_with_tls_and_to_no_others(tmp_path: Path) -> None:
    server = Server(tokens={"secret"})

    async def use() -> None:
        assert await version(secured(tmp_path, server, {"token": "secret"})) == "v1.36.2"
        (tmp_path / "token").write_text("secret\n")
        assert await version(secured(tmp_path, server, {"token": "old", "tokenFile": "token"})) == "v1.36.2"
        line = await refused(secured(tmp_path, server, {"token": "wrong"}))
        assert line.startswith("context here: 127.0.0.1:")
        assert line.endswith(": the server refuses the credentials of the kubeconfig: Unauthorized (HTTP 401)")

    run(server, use)
    plain = Server()

    async def without() -> None:
        async with serving(plain):
            await version(kubeconfig(tmp_path / "config", plain.url, user={"token": "secret"}))
        assert "Authorization" not in plain.requests[0][2]

    asyncio.run(without())


def test_a_name_and_password_an_id_token_and_impersonation(tmp_path: Path) -> None:
    server = Server()

    async def use() -> None:
        await version(secured(tmp_path, server, {"username": "ä", "password": "b:c"}))
        assert server.requests[-1][2]["Authorization"] == "Basic " + base64.b64encode("ä:b:c".encode()).decode()
        await version(secured(tmp_path, server, {"auth-provider": {"name": "oidc", "config": {"id-token": "jwt"}}}))
        assert server.requests[-1][2]["Authorization"] == "Bearer jwt"
        assert "auth-provider gcp is not supported" in await refused(secured(tmp_path, server, {"auth-provider": {"name": "gcp"}}))
        user = {"as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"reason/x": ["tidy"]}}
        await version(secured(tmp_path, server, user))
        headers = server.requests[-1][2]
        assert headers["Impersonate-User"] == "jane"
        assert headers["Impersonate-Extra-reason%2Fx"] == "tidy"

    run(server, use)


def test_a_client_certificate_as_data_or_files_is_shown_and_stays_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    certificate = authority().issue_cert("jane@example.org")
    user = {"client-certificate-data": encoded(*certificate.cert_chain_pems), "client-key-data": encoded(certificate.private_key_pem)}

    async def use() -> None:
        assert await version(secured(tmp_path, server, user)) == "v1.36.2"
        certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
        assert await version(secured(tmp_path, server, {"client-certificate": "both.pem", "client-key": "both.pem"})) == "v1.36.2"
        assert await refused(secured(tmp_path, server)) != ""
        half = {"client-certificate": "both.pem"}
        assert "only one of client-certificate and client-key" in await refused(secured(tmp_path, server, half))
        missing = {"client-certificate": "no.pem", "client-key": "no.pem"}
        assert f"{tmp_path}/no.pem: No such file or directory" in await refused(secured(tmp_path, server, missing))
        (tmp_path / "bad.pem").write_text("no certificate")
        bad = {"client-certificate": "bad.pem", "client-key": "bad.pem"}
        assert "expected a pair in PEM" in await refused(secured(tmp_path, server, bad))

    run(server, use, tls(clients=True))
    assert list(scratch.iterdir()) == []


def test_a_certificate_that_nobody_vouches_for_is_refused_unless_it_is_not_to_be_looked_at(tmp_path: Path) -> None:
    server = Server()

    async def use() -> None:
        other = {"certificate-authority-data": encoded(trustme.CA().cert_pem)}
        assert "certificate is not trusted: " in await refused(kubeconfig(tmp_path / "c", server.url, cluster=other))
        assert await version(kubeconfig(tmp_path / "c", server.url, cluster={"insecure-skip-tls-verify": True})) == "v1.36.2"
        both = secured(tmp_path, server, cluster={"insecure-skip-tls-verify": True})
        assert "contradict each other" in await refused(both)
        authority().cert_pem.write_to_path(tmp_path / "ca.pem")
        assert await version(kubeconfig(tmp_path / "c", server.url, cluster={"certificate-authority": "ca.pem"})) == "v1.36.2"
        assert "certificate-authority" in await refused(
            kubeconfig(tmp_path / "c", server.url, cluster={"certificate-authority-data": "eA=="})
        )
        assert "expected base64" in await refused(kubeconfig(tmp_path / "c", server.url, cluster={"certificate-authority-data": "x"}))

    run(server, use)


def test_the_name_in_the_certificate_may_be_another_one(tmp_path: Path) -> None:
    server = Server()

    async def use() -> None:
        assert "not trusted" in await refused(secured(tmp_path, server))
        assert await version(secured(tmp_path, server, cluster={"tls-server-name": "api.example.org"})) == "v1.36.2"

    run(server, use, tls("api.example.org"))


# --- plugins --------------------------------------------------------------------------------------------------------


def plugin(path: Path, code: str, **more: Any) -> Object:
    """Return a user whose credentials a Python program gives, which has ``credential(**status)``."""
    script = path / "plugin.py"
    script.write_text(
        f"""#!{sys.executable}
import json, os, sys, time
from pathlib import Path
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
runs = Path({str(path / "runs")!r})
runs.open("a").write("x")
count = len(runs.read_text())
def credential(**status):
    print(json.dumps({{"kind": "ExecCredential", "apiVersion": info["apiVersion"], "status": status}}))
{code}
"""
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin.py", "interactiveMode": "Never", **more}}


def test_a_plugin_is_told_what_it_needs_and_gives_a_token(tmp_path: Path) -> None:
    server = Server(tokens={"t-arg-env"})

    async def use() -> None:
        code = (
            f"Path({str(tmp_path / 'info')!r}).write_text(json.dumps(info)); credential(token='t-' + sys.argv[1] + '-' + os.environ['E'])"
        )
        more = {"args": ["arg"], "env": [{"name": "E", "value": "env"}], "provideClusterInfo": True}
        extension = {"extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}]}
        assert await version(secured(tmp_path, server, plugin(tmp_path, code, **more), cluster=extension)) == "v1.36.2"
        told = {"server": server.url, "certificate-authority-data": authority_data(), "config": {"audience": "x"}}
        assert json.loads((tmp_path / "info").read_text())["spec"] == {"interactive": False, "cluster": told}
        beta = plugin(tmp_path, code, **more, apiVersion="client.authentication.k8s.io/v1beta1")
        assert await version(secured(tmp_path, server, beta)) == "v1.36.2"

    run(server, use)


def test_a_token_that_ends_or_is_refused_is_renewed_once_for_all(tmp_path: Path) -> None:
    server = Server(tokens={"token-1"})
    server.put(node("n"))

    async def use() -> None:
        path = secured(tmp_path, server, plugin(tmp_path, "credential(token=f'token-{count}')"))
        async with connect(path, limits=FAST) as connection:
            server.tokens = {"token-2"}
            answers = await asyncio.gather(*(connection.send("GET", "/api/v1/nodes/n") for _ in range(50)))
            assert {each.code for each in answers} == {200}
            assert (tmp_path / "runs").read_text() == "xx"
            server.tokens = set()
            for _ in range(2):
                with pytest.raises(Unauthorized, match=r"^the API server refuses the credentials: Unauthorized \(HTTP 401\)$"):
                    await connection.send("GET", "/api/v1/nodes/n")
            assert (tmp_path / "runs").read_text() == "xx"  # not more often than every ten seconds

    run(server, use)


def test_a_token_is_renewed_before_it_ends(tmp_path: Path) -> None:
    server = Server()

    async def use() -> None:
        soon = f"{datetime.now(UTC) + timedelta(seconds=20):%Y-%m-%dT%H:%M:%SZ}"
        late = f"{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
        code = f"credential(token=f'token-{{count}}', expirationTimestamp={soon!r} if count == 1 else {late!r})"
        async with connect(secured(tmp_path, server, plugin(tmp_path, code)), limits=FAST) as connection:
            for _ in range(3):
                await connection.send("GET", "/version")
        assert [each[2]["Authorization"] for each in server.requests] == ["Bearer token-2"] * 4
        assert (tmp_path / "runs").read_text() == "xx"

    run(server, use)


def test_a_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    server = Server()
    certificate = authority().issue_cert("jane@example.org")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")

    async def use() -> None:
        code = f"""
folder = Path({str(tmp_path)!r})
credential(clientCertificateData=(folder / "cert.pem").read_text(), clientKeyData=(folder / "key.pem").read_text())"""
        assert await version(secured(tmp_path, server, plugin(tmp_path, code))) == "v1.36.2"

    run(server, use, tls(clients=True))


@pytest.mark.parametrize(
    ("code", "more", "said"),
    [
        ("print('log in first\\nno \\x1b[1msession', file=sys.stderr); sys.exit(3)", {}, r"ended with exit code 3: no \x1b[1msession"),
        ("sys.exit(1)", {}, "ended with exit code 1"),
        ("os.kill(os.getpid(), 9)", {}, "killed by signal 9"),
        ("print('no json')", {}, "expected an ExecCredential: JSON is malformed"),
        (
            "info['apiVersion'] = 'v0'; credential(token='x')",
            {},
            "got v0 ExecCredential, expected client.authentication.k8s.io/v1 ExecCredential",
        ),
        ("credential()", {}, "returned neither a token nor a certificate"),
        ("credential(clientKeyData='x')", {}, "returned only one of certificate and key, expected both"),
        ("", {"command": "./none", "installHint": "get it\nfrom x"}, "not found; get it from x"),
        ("", {"command": "no-such-program-anywhere"}, "no-such-program-anywhere: not found"),
        ("", {"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "got apiVersion 'client.authentication.k8s.io/v1alpha1'"),
        ("", {"interactiveMode": "Always"}, "but there is no terminal"),
        ("", {"interactiveMode": "Perhaps"}, "exec plugin of the kubeconfig: Invalid enum value 'Perhaps'"),
        ("", {"args": "no list"}, "exec plugin of the kubeconfig: Expected `array | null`"),
    ],
)
def test_a_plugin_that_gives_nothing_is_the_end(
    tmp_path: Path, code: str, more: Object, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    path = kubeconfig(tmp_path / "config", "https://127.0.0.1:1", user=plugin(tmp_path, code, **more))
    line = problem(path)
    assert line.startswith("exec plugin ")
    assert said in line


# --- proxies --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def proxying(server: Server, asked: list[str]) -> AsyncIterator[str]:
    """A proxy that leads every CONNECT to the server."""
    tasks: set[asyncio.Task[None]] = set()

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked.append(head)
        if "denied" in head:
            writer.write(b"HTTP/1.1 407 Log in\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        there, away = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        tasks.update({asyncio.create_task(pipe(reader, away)), asyncio.create_task(pipe(there, writer))})

    listening = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()
        for task in tasks:
            task.cancel()


def test_proxies_of_kubeconfig_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, asked = Server(), list[str]()
    authority_only = {"certificate-authority-data": authority_data()}

    async def use() -> None:
        async with proxying(server, asked) as proxy:
            away = "https://api.example.org:6443"
            named = kubeconfig(tmp_path / "1", away, cluster={**authority_only, "proxy-url": proxy.replace("//", "//me:secret@")})
            assert await version(named) == "v1.36.2"
            assert asked[-1].startswith("CONNECT api.example.org:6443 HTTP/1.1\r\n")
            assert "Proxy-Authorization: Basic " + base64.b64encode(b"me:secret").decode() in asked[-1]
            here = kubeconfig(tmp_path / "2", server.url, cluster={**authority_only, "proxy-url": proxy})
            assert await version(here) == "v1.36.2"
            assert len(asked) == 2
            monkeypatch.setenv("HTTPS_PROXY", proxy)
            assert await version(kubeconfig(tmp_path / "3", away, cluster=authority_only)) == "v1.36.2"
            assert len(asked) == 3
            assert await version(kubeconfig(tmp_path / "4", server.url, cluster=authority_only)) == "v1.36.2"
            assert len(asked) == 3  # this machine needs none
            denied = kubeconfig(tmp_path / "5", "https://denied:1", cluster=authority_only)
            assert await refused(denied) == "context here: denied:1: cannot be reached: the proxy refuses the connection: 407 Log in"
            monkeypatch.setenv("NO_PROXY", "10.0.0.0/8, .invalid")
            assert "cannot be reached" in await refused(kubeconfig(tmp_path / "6", "https://api.invalid:6443", cluster=authority_only))
            assert len(asked) == 4
            socks = kubeconfig(tmp_path / "7", away, cluster={"proxy-url": "socks5://localhost:1"})
            assert await refused(socks) == "proxy-url of the kubeconfig: got a socks5 proxy, expected http:// or https://"
        dead = kubeconfig(tmp_path / "8", away, cluster={"proxy-url": proxy.replace("//", "//me:secret@")})
        line = await refused(dead)
        assert "the proxy cannot be reached: connection refused" in line
        assert "secret" not in line

    run(server, use, tls("127.0.0.1", "api.example.org"))


# --- servers --------------------------------------------------------------------------------------------------------


def test_servers_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "config"
    assert problem(kubeconfig(path, "http://127.0.0.1:1")) == "context here: 127.0.0.1:1: cannot be reached: connection refused"
    assert problem(kubeconfig(path, "https://nowhere.invalid:6443")).startswith("context here: nowhere.invalid:6443: cannot be reached: ")
    for url in ("ftp://x", "https://", "https://x:99999", "https://[x"):
        assert problem(kubeconfig(path, url)) == f"context here: server: got {url!r}, expected https://HOST[:PORT]"
    assert problem(kubeconfig(path, "")) == "context here: its cluster has no server; expected https://HOST[:PORT]"
    server = Server()

    async def use() -> None:
        plain = server.url.replace("http", "https")
        assert "TLS fails" in await refused(kubeconfig(path, plain))
        server.faults += once("GET", "/version", lambda: web.Response(text="<html>welcome</html>"))
        assert "is not that of a Kubernetes API server" in await refused(kubeconfig(path, server.url))
        server.faults += once("GET", "/version", lambda: web.Response(status=404, text="nginx"))
        assert "GET /version: HTTP 404: nginx (HTTP 404); expected the version" in await refused(kubeconfig(path, server.url))
        server.faults += once("GET", "/version", lambda: status(403, "Forbidden", 'User "system:anonymous" cannot get path "/version"'))
        assert "refuses the credentials" in await refused(kubeconfig(path, server.url))
        server.faults += once("GET", "/version", lambda: status(403, "Forbidden", 'User "jane" cannot get path "/version"'))
        assert await version(kubeconfig(path, server.url)) == ""

    async def main() -> None:
        async with serving(server):
            await use()

    asyncio.run(main())


def test_a_server_below_a_path(tmp_path: Path) -> None:
    server = Server()
    server.faults += once("GET", "/k8s/clusters/c-1/version", lambda: web.json_response({"gitVersion": "v9"}))

    async def main() -> None:
        async with serving(server):
            assert await version(kubeconfig(tmp_path / "config", f"{server.url}/k8s/clusters/c-1/")) == "v9"

    asyncio.run(main())


def test_in_a_pod_of_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(tokens={"pod-token"})
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    (tmp_path / "token").write_text("pod-token")
    authority().cert_pem.write_to_path(tmp_path / "ca.crt")
    with pytest.raises(InputError, match="there is no kubeconfig, and this is not a pod of a cluster"):
        asyncio.run(version(None))

    async def use() -> None:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", server.url.rpartition(":")[2])
        monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
        monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
        async with connect(limits=FAST) as connection:
            assert (connection.context, connection.version) == ("", "v1.36.2")
            (tmp_path / "token").write_text("next-token")  # as the kubelet does every hour
            server.tokens = {"next-token"}
            assert (await connection.send("GET", "/version")).ok

    run(server, use)


def test_without_the_extra_a_line_says_what_to_install() -> None:
    code = """
import asyncio, sys
sys.modules["kubernetes"] = None
from kubestow.live.api.connect import connect
from kubestow.models.snapshot.snapshot import InputError
async def main():
    async with connect("config"):
        pass
try:
    asyncio.run(main())
except InputError as error:
    print(error)
"""
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    assert found.stdout == "access to a cluster requires the Kubernetes client library: pip install 'kubestow[apply]'\n"
