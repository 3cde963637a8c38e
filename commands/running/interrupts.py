"""^C during a search: the first one stops with the best result so far, the second one ends the command."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from kubestow.commands.common.exit_codes import Aborted

_T = TypeVar("_T")


def in_thread(search: Callable[[], _T], stop: threading.Event, say: Callable[[str], None]) -> _T:
    """Search in a thread, because Python handles signals only between steps of its main thread.

    The first ^C sets ``stop`` and prints a message with ``say``. Outside the main thread, signals are left alone.

    Raises:
        Aborted: a second ^C.
    """
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
