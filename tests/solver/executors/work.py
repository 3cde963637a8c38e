"""Tasks of these tests; workers import them by name."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kubestow.solver.executors import files
from kubestow.solver.executors.files import SharedPath, local_path
from kubestow.solver.executors.run import FinishedTask
from kubestow.solver.executors.second_process import Channel


def square(number: int) -> int:
    return number * number


def fail(number: int) -> int:
    if number % 5 == 0:
        raise ValueError(f"task {number}")
    return number


def odd(number: int) -> Any:
    """Return an object that cannot be sent, for one number."""
    return threading.Lock() if number == 7 else number


class Unsendable(Exception):
    """An error that no pickle makes again."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


def unsendable(number: int) -> int:
    """Raise it for one number."""
    if number == 7:
        raise Unsendable("this", "that")
    return number


def slow(seconds: float, folder: str = "", name: str = "") -> str:
    """Sleep, and leave a file that says that it ran to its end."""
    time.sleep(seconds)
    if folder:
        with Path(folder, name).open("a", encoding="ascii") as stream:
            stream.write("done\n")
    return name


def kill_once(number: int, killer: int, mark: str) -> int:
    """Kill the worker the first time that the killer is tried."""
    if number == killer and not os.path.exists(mark):
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.02)
    return number


def kill_always(number: int, killer: int) -> int:
    if number == killer:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.02)
    return number


def size_of(number: int, shared: SharedPath | str) -> tuple[int, int, str]:
    """Return a task's number, the size of a file, and where it was read."""
    path = local_path(shared)
    return number, sum(f.stat().st_size for f in Path(path).rglob("*")) if os.path.isdir(path) else os.path.getsize(path), path


def hide() -> None:
    """Make a worker see no file of another machine, as if it were one of its own."""
    files._sees = lambda shared: False


def burn(seconds: float) -> float:
    """Compute for as many seconds of processor time."""
    started, total = time.process_time(), 0
    while time.process_time() - started < seconds:
        total += sum(range(1000))
    return seconds


def empty(number: int) -> None:
    return


def pid(number: int) -> int:
    time.sleep(0.05)
    return os.getpid()


def echo(value: Any) -> Any:
    return value


def by_task(tasks: Iterator[FinishedTask[int, Any]]) -> dict[int, FinishedTask[int, Any]]:
    """Return the outcome of each task; no task has two."""
    done: dict[int, FinishedTask[int, Any]] = {}
    for each in tasks:
        assert each.task not in done
        done[each.task] = each
    return done


def made(factor: int) -> list[int]:
    """Make a subject, which says how often it was asked."""
    return [factor, 0]


def times(subject: list[int], number: int) -> tuple[int, int, int]:
    """Return a product, the process and how often its subject was asked until now."""
    subject[1] += 1
    time.sleep(0.01)
    return subject[0] * number, os.getpid(), subject[1]


def times_but(subject: list[int], part: tuple[int, int, str]) -> int:
    """Return a product; the process that gets the killer dies: once, where a file for it to be marked is named, else each time."""
    number, killer, mark = part
    if number == killer and not (mark and os.path.exists(mark)):
        if mark:
            Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)
    return subject[0] * number


def fail_at(subject: list[int], number: int) -> int:
    if number == 5:
        raise ValueError("part 5")
    return subject[0] * number


# --- in a second process -------------------------------------------------------------------------------------------------------------


def parrot(channel: Channel, first: Any) -> None:
    """Send the argument and every received message back, until a message is None."""
    channel.send(first)
    while True:
        for message in channel.received():
            if message is None:
                return
            channel.send(message)
        time.sleep(0.01)


def chatter(channel: Channel) -> None:
    """Print on all that can be printed on, and read."""
    print("printed", flush=True)
    print("complained", file=sys.stderr, flush=True)
    os.write(1, b"written")
    os.write(2, b"written")
    assert sys.stdin.read() == ""
    channel.send("said")


def come_to_grief(channel: Channel, how: str) -> None:
    """End otherwise than it should."""
    channel.send(how)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError(how)


def endure(channel: Channel) -> None:
    """Tell the number of this process, and go on without hearing anything."""
    channel.send(os.getpid())
    while True:
        time.sleep(1)
