"""Read-only calls of kubectl: its answer, or one line with the reason for a failure."""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

#: Bytes read from a pipe at once.
_CHUNK_BYTES: Final = 1 << 20
#: Bytes of standard error that are kept.
_MAX_ERROR_BYTES: Final = 1 << 16
#: Maximum length of kubectl's own text in a message, in characters.
_MAX_SHOWN_CHARACTERS: Final = 400
#: Log lines of klog among kubectl's messages: ``E1121 22:07:49.150684   31516 memcache.go:265] …``.
_LOG: Final = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d")
_SERVER: Final = re.compile(r"Error from server(?: \((\w+)\))?: (.*)")
_SAID: Final = ("Error from server", "error:", "The connection to the server", "Unable to connect")


class KubectlError(Exception):
    """kubectl cannot be run or ended without an answer, so further calls would fail too."""


class RequestRefused(Exception):
    """The API server refused one request. ``reason`` is the server's word: ``Forbidden``, ``NotFound``, …"""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Kubectl:
    """kubectl with the options for a cluster. ``heard`` has the distinct lines on standard error of successful calls."""

    def __init__(self, program: str, options: Sequence[str], silence: float) -> None:
        """Keep the command line. ``silence`` is the number of seconds without output after which a call is aborted."""
        self.heard: dict[str, None] = {}
        self.silence = silence
        self._command = [program, *options]

    def command(self, *arguments: str) -> list[str]:
        """Return a command line for the cluster."""
        return [*self._command, *arguments]

    def get(self, url: str) -> bytes:
        """Return the API server's answer to a GET.

        Raises:
            KubectlError: there is no answer.
            Refused: the answer is an error.
        """
        what = "kubectl get --raw " + url.partition("?")[0]
        code, output, words = self._run(["get", "--raw", url], what)
        if code == 0:
            return output
        said = _SERVER.search(words)
        if said is not None and said[1] != "Unauthorized":
            raise RequestRefused(said[1] or "", said[2][:_MAX_SHOWN_CHARACTERS])
        raise KubectlError(f"{what}: {_reason(words, code)}")

    def resources(self) -> tuple[str, str]:
        """Return the table of listable resources, and kubectl's complaint about API groups that do not answer.

        Raises:
            KubectlError: there is no answer at all.
        """
        what = "kubectl api-resources"
        code, output, words = self._run(["api-resources", "--verbs=list", "--no-headers"], what)
        if code and not output.strip():
            raise KubectlError(f"{what}: {_reason(words, code)}")
        return output.decode(errors="replace"), _reason(words, code) if code else ""

    def context(self) -> str:
        """Return the name of kubectl's current context; empty without one, as in a pod."""
        code, output, _ = self._run(["config", "current-context"], "kubectl config current-context")
        return "" if code else output.decode(errors="replace").strip().partition("\n")[0]

    def namespace(self) -> str:
        """Return the namespace of kubectl's context; empty without one.

        Raises:
            KubectlError: kubectl cannot be run.
        """
        what = ["config", "view", "--minify", "--output=jsonpath={.contexts[0].context.namespace}"]
        code, output, _ = self._run(what, "kubectl config view")
        return "" if code else output.decode(errors="replace").strip()

    def client_version(self) -> str:
        """Return the version of kubectl itself, without a call to the cluster.

        Raises:
            KubectlError: kubectl cannot be run, or prints no version.
        """
        what = "kubectl version --client"
        code, output, words = self._run(["version", "--client", "--output=json"], what)
        found = re.search(rb'"gitVersion"\s*:\s*"([^"\s]{1,60})"', output)
        if code or found is None:
            raise KubectlError(f"{what}: {_reason(words, code)}")
        return found[1].decode(errors="replace")

    def server_version(self) -> str:
        """Return the version of the API server.

        Raises:
            KubectlError, Refused: as for :meth:`get`.
        """
        found = re.search(rb'"gitVersion"\s*:\s*"([^"\s]{1,60})"', self.get("/version"))
        return found[1].decode(errors="replace") if found is not None else "of unknown version"

    def may(self, verb: str, resource: str, namespace: str | None = None) -> bool:
        """Return True if the API server allows this user the action, in one namespace or in all.

        Raises:
            KubectlError: there is no answer.
        """
        where = ["--all-namespaces"] if namespace is None else [f"--namespace={namespace}"]
        what = f"kubectl auth can-i {verb} {resource}"
        resource, _, part = resource.partition("/")
        code, output, words = self._run(["auth", "can-i", verb, resource, *([f"--subresource={part}"] if part else []), *where], what)
        said = output.decode(errors="replace").split()
        if not said or said[0] not in ("yes", "no"):
            raise KubectlError(f"{what}: {_reason(words, code)}")
        return said[0] == "yes"

    def _run(self, arguments: Sequence[str], what: str) -> tuple[int, bytes, str]:
        """Return the exit code (negative for a signal), standard output, and standard error without log lines."""
        # The user's defaults for `kubectl get` (kuberc) might contradict --raw.
        environment = {**os.environ, "KUBECTL_KUBERC": "false"}
        try:
            process = subprocess.Popen(
                [*self._command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
            )
        except (FileNotFoundError, NotADirectoryError):
            raise KubectlError(f"{self._command[0]}: not found; --kubectl says where kubectl is") from None
        except (OSError, ValueError) as error:
            raise KubectlError(f"{self._command[0]}: cannot be run: {getattr(error, 'strerror', None) or error}") from None
        with ExitStack() as stack:
            stack.callback(process.wait)
            stack.callback(process.kill)  # also on ^C; no effect after the process has ended
            assert process.stdout is not None
            assert process.stderr is not None
            stack.callback(process.stderr.close)
            stack.callback(process.stdout.close)
            output, errors = self._read(process, what)
            try:
                code = process.wait(self.silence)
            except subprocess.TimeoutExpired:
                raise self.silent(what, errors) from None
        lines = _lines(errors)
        if code == 0:
            self.heard.update(dict.fromkeys(lines))
        return code, output, "\n".join(lines)

    def _read(self, process: subprocess.Popen[bytes], what: str) -> tuple[bytes, bytes]:
        found: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        kept = 0
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout or 0, selectors.EVENT_READ, "stdout")
            selector.register(process.stderr or 0, selectors.EVENT_READ, "stderr")
            last = time.monotonic()
            while selector.get_map():
                ready = selector.select(max(0.0, last + self.silence - time.monotonic()))
                if not ready:
                    raise self.silent(what, b"".join(found["stderr"]))
                for key, _ in ready:
                    data = os.read(key.fd, _CHUNK_BYTES)
                    last = time.monotonic()
                    if not data:
                        selector.unregister(key.fileobj)
                    elif key.data == "stdout" or kept < _MAX_ERROR_BYTES:
                        found[key.data].append(data)
                        kept += len(data) if key.data == "stderr" else 0
        return b"".join(found["stdout"]), b"".join(found["stderr"])

    def silent(self, what: str, errors: bytes = b"") -> KubectlError:
        """Return the error of a call without output."""
        # kubectl may wait for a login and have printed a message about it.
        said = _reason("\n".join(_lines(errors)), 0) if _lines(errors) else ""
        words = f"; it said: {said}" if said else ""
        return KubectlError(f"{what}: no answer for {self.silence:g} s (kubestow capture --timeout waits longer){words}")


def _lines(errors: bytes) -> list[str]:
    """Return the lines on standard error without log lines."""
    return [line for line in errors.decode(errors="replace").splitlines() if line.strip() and not _LOG.match(line)]


def _reason(words: str, code: int) -> str:
    """Return the most important line of kubectl's messages, or how kubectl ended."""
    lines = words.splitlines()
    found = next((line for line in lines if line.startswith(_SAID)), lines[-1] if lines else "")
    if not found:
        return f"killed by signal {-code}" if code < 0 else f"ended with exit code {code} without a message"
    return found.removeprefix("error: ")[:_MAX_SHOWN_CHARACTERS]
