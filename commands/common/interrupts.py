"""^C during a search: the first one stops with the best result so far, the second one ends the command."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

_T = TypeVar("_T")


class Aborted(KeyboardInterrupt):
    """A second ^C, while a search still runs in its thread."""


@contextmanager
def heard(hear: Callable[[], object]) -> Iterator[None]:
    """Call ``hear`` in the running event loop at every ^C and SIGTERM."""
    import asyncio

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, hear)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def in_thread(search: Callable[[], _T], stop: threading.Event, say: Callable[[str], None]) -> _T:
    """Search in a thread, because Python handles signals only between steps of its main thread.

    The first ^C sets ``stop`` and prints a message with ``say``. Outside the main thread, signals are left alone.

    Raises:
        Aborted: a second ^C.
    """
    from concurrent.futures import Future, wait

    future: Future[_T] = Future()
    received: list[int] = []

    def work() -> None:
        try:
            future.set_result(search())
        except BaseException as error:  # noqa: BLE001 (handed to the main thread, which raises it)
            future.set_exception(error)

    def listen() -> Any:
        if threading.current_thread() is threading.main_thread():
            return signal.signal(signal.SIGINT, lambda number, _: received.append(number))
        return None

    before = listen()
    try:
        threading.Thread(target=work, name="solve", daemon=True).start()
        while not wait([future], 0.1).done:
            listen()  # repeatedly, because CP-SAT may reset the handler to the default, which would kill the process
            if received and not stop.is_set():
                stop.set()
                say("kubestow: stopping with the best result so far (^C again to abort at once)")
            if len(received) > 1:
                raise Aborted
        if received:
            stop.set()
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
    return future.result()
