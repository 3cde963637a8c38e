"""Credentials from an exec plugin of a kubeconfig (``users[].user.exec``), run in the same way as by kubectl.

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
#: Name of the cluster extension in a kubeconfig that is passed to a plugin.
_EXTENSION: Final = "client.authentication.k8s.io/exec"
#: Cluster settings that are passed to a plugin, in addition to the certificate authority.
_CLUSTER: Final = (
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "certificate-authority-data",
    "proxy-url",
    "disable-compression",
)
#: Seconds without output before a non-interactive plugin is killed.
EXEC_PLUGIN_TIMEOUT_SECONDS: Final = 60.0
#: Maximum length of a plugin's own text in a message, in characters.
_MAX_SHOWN_CHARACTERS: Final = 300


class CredentialsError(Exception):
    """No credentials are available; one line with the reason."""


@dataclass(frozen=True)
class Credentials:
    """A bearer token, or a certificate and its key in PEM, or both. ``expires``: end of their validity."""

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


async def run(settings: Settings, cluster: Settings, *, silence: float = EXEC_PLUGIN_TIMEOUT_SECONDS) -> Credentials:
    """Run the exec plugin of a user and return its credentials.

    Args:
        settings: The plugin in the kubeconfig's user.
        cluster: The kubeconfig's cluster, which the plugin may read.
        silence: Seconds after which a plugin that does not interact with the user is ended.

    Raises:
        CredentialsError: the plugin's settings are invalid, or it cannot be run, fails, or prints no valid credentials.
    """
    try:
        plugin = msgspec.convert(settings, _Plugin)
    except ValueError as error:
        raise CredentialsError(f"exec plugin of the kubeconfig: {error}") from None
    if plugin.apiVersion not in _VERSIONS:
        raise CredentialsError(f"exec plugin {plugin.command}: got apiVersion {plugin.apiVersion!r}, expected {' or '.join(_VERSIONS)}")
    at_terminal = sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not at_terminal:
        raise CredentialsError(f"exec plugin {plugin.command}: needs input (interactiveMode Always), but there is no terminal")
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
            stderr=None if interactive else asyncio.subprocess.PIPE,  # the plugin may print a login address there
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
        raise CredentialsError(f"{name}: no credentials after {silence:g} s") from None
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
        raise CredentialsError(f"{name}: expected an ExecCredential: {error}") from None
    if (answer.kind, answer.apiVersion) != ("ExecCredential", plugin.apiVersion):
        raise CredentialsError(f"{name}: got {_line(answer.apiVersion)} {_line(answer.kind)}, expected {plugin.apiVersion} ExecCredential")
    status = answer.status or _Status()
    if not status.token and not status.client_certificate_data and not status.client_key_data:
        raise CredentialsError(f"{name}: returned neither a token nor a certificate")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise CredentialsError(f"{name}: returned only one of certificate and key, expected both")
    expires = status.expiration_timestamp
    if expires is not None and expires.tzinfo is None:
        raise CredentialsError(f"{name}: expirationTimestamp without a time zone, expected RFC 3339")
    return Credentials(status.token, status.client_certificate_data, status.client_key_data, expires)


def _line(text: str) -> str:
    """Return foreign text as one line of printable characters."""
    short = " ".join(text.split())[:_MAX_SHOWN_CHARACTERS]
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in short)
