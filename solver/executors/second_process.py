"""A second process for work that goes on beside a search: it hears and tells while it works, and is gone when it is not needed.

It is a fresh interpreter that is asked for this module, not one of :mod:`multiprocessing`, which would run a program's script again that
does not guard against it. Nothing of it is printed, ^C does not reach it, and it ends as soon as the pipe from its starter does, however
that ends.
"""

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

#: The modules are found where the starter found them, and before anything else is imported.
#: What the second process runs, with this package and no other of its name.
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
    """What the second process hears and tells."""

    def __init__(self, outgoing: IO[bytes]) -> None:
        self._outgoing, self._heard = outgoing, queue.SimpleQueue[Any]()

    def listen(self, incoming: IO[bytes]) -> None:
        """Take note of what comes until nothing can come any more: then this process ends, whatever it is at."""
        with contextlib.suppress(Exception):
            while True:
                self._heard.put(pickle.load(incoming))
        os._exit(0)

    def found(self) -> list[Any]:
        """Return the messages that have come since this was asked before."""
        return _all_of(self._heard)

    def tell(self, message: Any) -> None:
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
    with contextlib.suppress(Exception):  # nobody could read it
        work, arguments = pickle.load(incoming)
        channel = Channel(outgoing)
        threading.Thread(target=channel.listen, args=(incoming,), daemon=True).start()
        work(channel, *arguments)
        os._exit(0)  # waits for no thread
    os._exit(1)


class SecondProcess:
    """Has ``work(channel, *arguments)`` done by a second process, with a :class:`Channel`; all of it can be pickled.

    Raises:
        OSError: none can be started.
        Exception: whatever keeps the arguments from being pickled.
    """

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        told = pickle.dumps((work, arguments), pickle.HIGHEST_PROTOCOL)
        self._process = _started()
        self._found, self._outgoing = queue.SimpleQueue[Any](), queue.SimpleQueue[bytes | None]()
        self._outgoing.put(told)
        self._over = threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    @property
    def over(self) -> bool:
        """Whether nothing comes any more, for whatever reason."""
        return self._over.is_set() and self._found.empty()

    @property
    def failed(self) -> bool:
        """Whether it ended otherwise than it should."""
        return self._process.poll() not in (None, 0)

    def tell(self, message: Any) -> None:
        """Send a message, without waiting until it is taken."""
        self._outgoing.put(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))

    def found(self) -> list[Any]:
        """Return the messages that have come since this was asked before."""
        return _all_of(self._found)

    def close(self) -> None:
        """End the process, at work or not."""
        self._outgoing.put(None)
        self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):  # what was not taken
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
        with contextlib.suppress(Exception):  # the end, or half a message before it
            while True:
                self._found.put(pickle.load(self._process.stdout))
        self._over.set()


def _all_of(messages: queue.SimpleQueue[Any]) -> list[Any]:
    found = []
    while not messages.empty():
        found.append(messages.get())
    return found


def _started() -> subprocess.Popen[bytes]:
    """Start an interpreter in a group of its own, which ^C from a terminal does not reach.

    Raises:
        OSError: there is none, as in a program that brings its own.
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
