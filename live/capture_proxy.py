"""GETs of one capture through one ``kubectl proxy``, instead of a new kubectl for each.

A kubectl takes 50 to 150 ms to start, and a capture of 1,000 nodes has 60 requests. The proxy listens on a socket in a folder that only
this user may enter, takes nothing but GETs, and ends with this process. Everything except a plain answer is left to ``kubectl get --raw``,
whose words users know: refusals, and programs that have no proxy.
"""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import subprocess
import tempfile
from http import HTTPStatus
from types import TracebackType
from typing import Final, Self

from kubestow.live.capture_kubectl import Kubectl

#: Run a program with a socket in a folder until standard input ends, also if this process is killed. The shell itself keeps no pipe open.
_UNTIL_END_OF_INPUT: Final = 'folder=$1; shift; "$@" & exec >/dev/null 2>&1; read -r _; rm -f "$folder/proxy"; rmdir "$folder"; kill 0'
_NOT_GET: Final = "^(POST|PUT|PATCH|DELETE|OPTIONS|CONNECT)$"


class _SocketConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class KubectlProxy:
    """A context manager: a running ``kubectl proxy``. It starts in the background, and the first GET waits for it."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl
        self._folder = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: _SocketConnection | None = None

    def __enter__(self) -> Self:
        try:
            self._folder = tempfile.mkdtemp(prefix="kubestow-proxy-")
            command = self._kubectl.command(
                "proxy", f"--unix-socket={self._socket}", f"--reject-methods={_NOT_GET}", "--append-server-path"
            )
            self._process = subprocess.Popen(
                ["sh", "-c", _UNTIL_END_OF_INPUT, "sh", self._folder, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError):
            self._end()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def get(self, url: str) -> bytes:
        """Return the API server's answer to a GET. Raises the errors of :meth:`kubestow.live.capture_kubectl.Kubectl.get`."""
        if self._process is None:
            return self._kubectl.get(url)
        try:
            connection = self._connection or self._connected(self._process)
            connection.putrequest("GET", url, skip_accept_encoding=True)  # so that kubectl asks for gzip and unpacks it
            connection.endheaders()
            answer = connection.getresponse()
            data = answer.read()
        except TimeoutError:
            raise self._kubectl.silent(f"kubectl proxy: {url.partition('?')[0]}") from None
        except (OSError, http.client.HTTPException):
            self._end()
            return self._kubectl.get(url)
        if answer.status != HTTPStatus.OK:
            return self._kubectl.get(url)
        for warning in answer.headers.get_all("Warning") or ():
            text = warning.partition(' "')[2].removesuffix('"')
            self._kubectl.heard[f"Warning: {text}"] = None
        return data

    @property
    def _socket(self) -> str:
        return os.path.join(self._folder, "proxy")

    def _connected(self, process: subprocess.Popen[bytes]) -> _SocketConnection:
        """Wait for the proxy and return a connection.

        Raises:
            OSError: it does not run.
        """
        assert process.stdout is not None
        if not process.stdout.readline().startswith(b"Starting to serve"):
            raise ConnectionError
        self._connection = _SocketConnection(self._socket, self._kubectl.silence)
        return self._connection

    def _end(self) -> None:
        """End the proxy and remove its socket. A second call does nothing."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is not None:
            self._process.communicate()
            self._process, self._folder = None, ""
        elif self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)  # the shell did not start
