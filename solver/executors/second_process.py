"""A second process for work alongside a search. It exchanges messages while it works, and can be ended at any time.

It is a fresh interpreter that runs this module. :mod:`multiprocessing` would run a program's main script again if the
script does not guard against it. The process prints nothing, ignores ^C, and ends when the pipe from its starter closes
for any reason."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import IO, Any, Final

#: Program of the second process. It uses the starter's module path and exactly this package, before importing anything.
_BEGIN: Final = """
import importlib.util, sys
sys.path[:] = {paths!r}
spec = importlib.util.spec_from_file_location("kubestow", {file!r}, submodule_search_locations=[{folder!r}])
sys.modules["kubestow"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["kubestow"])
from kubestow.solver.executors.second_process import serve
serve()
"""
_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Channel:
    """The messages of the second process, received and sent."""

    def __init__(self, outgoing: IO[bytes]) -> None:
        self._outgoing, self._incoming = outgoing, queue.SimpleQueue[Any]()

    def listen(self, incoming: IO[bytes]) -> None:
        """Receive messages until the pipe closes, then end this process immediately."""
        with contextlib.suppress(Exception):
            while True:
                self._incoming.put(pickle.load(incoming))
        os._exit(0)

    def received(self) -> list[Any]:
        """Return the messages that arrived since the last call."""
        return _all_of(self._incoming)

    def send(self, message: Any) -> None:
        """Send a message."""
        pickle.dump(message, self._outgoing, pickle.HIGHEST_PROTOCOL)
        self._outgoing.flush()


def serve() -> None:
    """Do the work that the starter sends, in the second process, and end it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    with contextlib.suppress(Exception):  # errors have no reader
        work, arguments = pickle.load(incoming)
        channel = Channel(outgoing)
        threading.Thread(target=channel.listen, args=(incoming,), daemon=True).start()
        work(channel, *arguments)
        os._exit(0)  # without waiting for threads
    os._exit(1)


class SecondProcess:
    """A second process that runs ``work(channel, *arguments)`` with a :class:`Channel`. Everything must be picklable.

    Raises:
        OSError: No process can be started.
        Exception: The arguments cannot be pickled.
    """

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        job = pickle.dumps((work, arguments), pickle.HIGHEST_PROTOCOL)
        self._process = _started()
        self._incoming, self._outgoing = queue.SimpleQueue[Any](), queue.SimpleQueue[bytes | None]()
        self._outgoing.put(job)
        self._over = threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    @property
    def over(self) -> bool:
        """True if no more messages will come."""
        return self._over.is_set() and self._incoming.empty()

    @property
    def failed(self) -> bool:
        """True if the process ended with an error."""
        return self._process.poll() not in (None, 0)

    def send(self, message: Any) -> None:
        """Send a message without waiting for its delivery."""
        self._outgoing.put(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))

    def received(self) -> list[Any]:
        """Return the messages that arrived since the last call."""
        return _all_of(self._incoming)

    def close(self) -> None:
        """End the process, even if it is working."""
        self._outgoing.put(None)
        self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):  # data that was not read
                assert stream is not None
                stream.close()

    def _send(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            while (message := self._outgoing.get()) is not None:
                self._process.stdin.write(message)
                self._process.stdin.flush()

    def _receive(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(Exception):  # end of the pipe, possibly within a message
            while True:
                self._incoming.put(pickle.load(self._process.stdout))
        self._over.set()


def _all_of(messages: queue.SimpleQueue[Any]) -> list[Any]:
    found = []
    while not messages.empty():
        found.append(messages.get())
    return found


def _started() -> subprocess.Popen[bytes]:
    """Start an interpreter in its own process group, which ^C from a terminal does not reach.

    Raises:
        OSError: There is no interpreter, as in a frozen program.
    """
    program = sys.executable or ""
    if getattr(sys, "frozen", False) or "py" not in os.path.basename(program).lower():
        raise FileNotFoundError("no Python interpreter")
    paths = [path for path in sys.path if isinstance(path, str)]
    begin = _BEGIN.format(paths=paths, file=os.path.join(_PACKAGE, "__init__.py"), folder=_PACKAGE)
    flags = 0
    if sys.platform == "win32":
        flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    return subprocess.Popen(
        [program, "-c", begin],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        creationflags=flags,
        process_group=None if sys.platform == "win32" else 0,
    )
