"""Credentials from a program that a kubeconfig names (``users[].user.exec``), run as kubectl runs it.

Source: client-go, plugin/pkg/client/auth/exec/exec.go, and the reference of ``client.authentication.k8s.io/v1``.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from kubestow.live.api.kubeconfig import Settings

_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
#: Where a cluster of a kubeconfig has what a plugin is to be told.
_EXTENSION: Final = "client.authentication.k8s.io/exec"
#: What a plugin is told of its cluster, beside the certificate authority.
_CLUSTER: Final = (
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "certificate-authority-data",
    "proxy-url",
    "disable-compression",
)
#: Seconds after which a plugin that asks nobody anything is given up.
SILENCE: Final = 60.0
#: Characters of a plugin's own words in a message.
_SHOWN: Final = 300


class CredentialsError(Exception):
    """There are no credentials: one line that says why."""


@dataclass(frozen=True)
class Credentials:
    """A bearer token, or a certificate and its key in PEM, or both. ``expires``: from when on they are of no use."""

    token: str = ""
    certificate: str = ""
    key: str = ""
    expires: datetime | None = None


class _Variable(msgspec.Struct):
    name: str
    value: str = ""


class _Plugin(msgspec.Struct, rename="camel"):
    command: str
    apiVersion: str = msgspec.field(name="apiVersion")
    args: list[str] | None = None
    env: list[_Variable] | None = None
    provide_cluster_info: bool = False
    interactive_mode: Literal["Never", "IfAvailable", "Always"] = "IfAvailable"
    install_hint: str | None = None


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _Answer(msgspec.Struct):
    kind: str
    apiVersion: str
    status: _Status | None = None


async def run(settings: Settings, cluster: Settings, *, silence: float = SILENCE) -> Credentials:
    """Run the plugin that ``exec`` of a user describes and return what it gives.

    Raises:
        CredentialsError: it is described wrongly, cannot be run, fails, or gives nothing that is of use.
    """
    try:
        plugin = msgspec.convert(settings, _Plugin)
    except ValueError as error:
        raise CredentialsError(f"exec plugin of the kubeconfig: {error}") from None
    if plugin.apiVersion not in _VERSIONS:
        raise CredentialsError(f"exec plugin {plugin.command}: got apiVersion {plugin.apiVersion!r}, expected {' or '.join(_VERSIONS)}")
    at_terminal = sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not at_terminal:
        raise CredentialsError(f"exec plugin {plugin.command}: asks for input (interactiveMode Always), and there is no terminal")
    interactive = at_terminal and plugin.interactive_mode != "Never"
    output = await _run(plugin, _environment(plugin, cluster, interactive), interactive, silence)
    return _credentials(plugin, output)


def _environment(plugin: _Plugin, cluster: Settings, interactive: bool) -> dict[str, str]:
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.provide_cluster_info:
        spec["cluster"] = {key: cluster[key] for key in _CLUSTER if cluster.get(key)}
        for each in cluster.get("extensions") or ():
            if isinstance(each, dict) and each.get("name") == _EXTENSION:
                spec["cluster"]["config"] = each.get("extension")
    said = {"kind": "ExecCredential", "apiVersion": plugin.apiVersion, "spec": spec}
    return {
        **os.environ,
        **{variable.name: variable.value for variable in plugin.env or ()},
        "KUBERNETES_EXEC_INFO": msgspec.json.encode(said).decode(),
    }


async def _run(plugin: _Plugin, environment: dict[str, str], interactive: bool, silence: float) -> bytes:
    name = f"exec plugin {plugin.command}"
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *(plugin.args or ()),
            env=environment,
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=None if interactive else asyncio.subprocess.PIPE,  # it may say there where to log in
        )
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError)
        reason = "not found" if missing else f"cannot be run: {getattr(error, 'strerror', None) or error}"
        hint = f"; {_line(plugin.install_hint)}" if missing and plugin.install_hint else ""
        raise CredentialsError(f"{name}: {reason}{hint}") from None
    try:
        async with asyncio.timeout(None if interactive else silence):
            output, errors = await process.communicate()
    except TimeoutError:
        raise CredentialsError(f"{name}: gave no credentials for {silence:g} s") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        words = [line for line in (errors or b"").decode(errors="replace").splitlines() if line.strip()]
        said = f": {_line(words[-1])}" if words else ""
        how = f"killed by signal {-process.returncode}" if process.returncode < 0 else f"ended with exit code {process.returncode}"
        raise CredentialsError(f"{name}: {how}{said}")
    return output


def _credentials(plugin: _Plugin, output: bytes) -> Credentials:
    name = f"exec plugin {plugin.command}"
    try:
        answer = msgspec.json.decode(output, type=_Answer)
    except ValueError as error:
        raise CredentialsError(f"{name}: got no ExecCredential: {error}") from None
    if (answer.kind, answer.apiVersion) != ("ExecCredential", plugin.apiVersion):
        raise CredentialsError(f"{name}: got {_line(answer.apiVersion)} {_line(answer.kind)}, expected {plugin.apiVersion} ExecCredential")
    status = answer.status or _Status()
    if not status.token and not status.client_certificate_data and not status.client_key_data:
        raise CredentialsError(f"{name}: gave neither a token nor a certificate")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise CredentialsError(f"{name}: gave only one of certificate and key, expected both")
    expires = status.expiration_timestamp
    if expires is not None and expires.tzinfo is None:
        raise CredentialsError(f"{name}: expirationTimestamp without a time zone, expected RFC 3339")
    return Credentials(status.token, status.client_certificate_data, status.client_key_data, expires)


def _line(text: str) -> str:
    """Return what others wrote in one line that no terminal misreads."""
    short = " ".join(text.split())[:_SHOWN]
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in short)
