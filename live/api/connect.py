"""Connecting to a cluster's API server. The client library is not needed before :func:`connect` is called."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from kubestow.live.api.answers import Unreachable
from kubestow.live.api.exec_plugin import CredentialsError
from kubestow.live.api.kubeconfig import resolve
from kubestow.models.snapshot.snapshot import InputError

if TYPE_CHECKING:
    from kubestow.live.api.connection import Connection, ConnectionLimits

#: Import names of the packages in the extra.
_LIBRARY: Final = ("kubernetes", "aiohttp", "multidict", "yarl")
_ANONYMOUS: Final = "system:anonymous"
_LACKING: Final = "access to a cluster requires the Kubernetes client library: pip install 'kubestow[apply]'"
_NOWHERE: Final = "there is no kubeconfig, and this is not a pod of a cluster"


def why_not(kubeconfig: str | None = None, context: str | None = None) -> str | None:
    """Return why no cluster is accessible: the extra is not installed, or no cluster is configured. None if there is one.

    Raises:
        InputError: the kubeconfig is unusable.
    """
    if any(find_spec(name) is None for name in _LIBRARY):
        return _LACKING
    return _NOWHERE if resolve(kubeconfig, context) is None and "KUBERNETES_SERVICE_HOST" not in os.environ else None


@asynccontextmanager
async def connect(
    kubeconfig: str | None = None, context: str | None = None, *, limits: ConnectionLimits | None = None
) -> AsyncIterator[Connection]:
    """Connect to the API server of a context and check that it answers. None means kubectl's default.

    Raises:
        InputError: the extra is not installed, or the kubeconfig, the credentials or the server are unusable.
    """
    try:
        from kubestow.live.api.connection import Connection, ConnectionLimits, host_of
        from kubestow.live.api.session import open_session
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _LIBRARY:
            raise
        raise InputError([_LACKING]) from None
    target = resolve(kubeconfig, context)
    try:
        session = await open_session(target)
    except CredentialsError as error:
        raise InputError([str(error)]) from None
    connection = Connection(target, session, kubeconfig, limits or ConnectionLimits())
    try:
        await _greet(connection, host_of(session.server))
        yield connection
    finally:
        await connection.close()


async def _greet(connection: Connection, host: str) -> None:
    where = f"context {connection.context}: {host}" if connection.context else host
    try:
        answer = await connection.probe()
    except Unreachable as error:
        raise InputError([f"{where}: cannot be reached: {str(error).removeprefix('GET /version: ')}"]) from None
    if answer.code == 401 or (answer.code == 403 and _ANONYMOUS in answer.message):
        raise InputError([f"{where}: the server refuses the credentials of the kubeconfig: {answer.message} (HTTP {answer.code})"])
    version = answer.body.get("gitVersion")
    if answer.ok and not isinstance(version, str):
        raise InputError([f"{where}: the answer to /version is not that of a Kubernetes API server"])
    if not answer.ok and answer.code != 403:  # some servers hide their version
        raise InputError([f"{where}: GET /version: {answer.message} (HTTP {answer.code}); expected the version of a Kubernetes API server"])
    connection.version = version[:100] if answer.ok and isinstance(version, str) else ""
