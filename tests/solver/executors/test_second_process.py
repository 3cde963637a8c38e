"""A second process that exchanges messages while it works: its output, its end, and that no process remains."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kubestow.solver.executors import second_process
from kubestow.solver.executors.second_process import SecondProcess
from tests.solver.executors import work

#: Seconds after which something that does not happen is given up: far more than it takes.
PATIENCE = 60


def until(happened: Callable[[], Any]) -> Any:
    """Return the first answer that is not empty."""
    given_up = time.monotonic() + PATIENCE
    while not (answer := happened()):
        assert time.monotonic() < given_up
        time.sleep(0.01)
    return answer


def gone(pid: int) -> bool:
    """Return whether there is no such process, or only a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def messages(process: SecondProcess, number: int) -> list[Any]:
    """Wait for the given number of messages."""
    found: list[Any] = []

    def enough() -> bool:
        found.extend(process.received())
        return len(found) >= number

    until(enough)
    return found


def test_both_sides_hear_each_other_while_the_work_goes_on() -> None:
    process = SecondProcess(work.parrot, "first")
    try:
        process.send("a")
        process.send({"b": [1, 2]})
        assert messages(process, 3) == ["first", "a", {"b": [1, 2]}]
        assert not process.over
        process.send(None)  # it ends by itself
        until(lambda: process.over)
        until(lambda: process._process.poll() is not None)
        assert not process.failed
    finally:
        process.close()


def test_what_it_sends_before_it_is_closed_is_not_lost() -> None:
    process = SecondProcess(work.parrot, "first")
    until(lambda: not process._incoming.empty())
    process.close()
    assert process.received() == ["first"]
    assert process.over


def test_it_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    process = SecondProcess(work.chatter)
    try:
        assert messages(process, 1) == ["said"]
    finally:
        process.close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("how", ["raise", "kill"])
def test_one_that_fails_is_over_and_says_so(how: str) -> None:
    process = SecondProcess(work.come_to_grief, how)
    try:
        assert messages(process, 1) == [how]
        until(lambda: process.over)
        until(lambda: process._process.poll() is not None)
        assert process.failed
        process.send("nobody hears it")
    finally:
        process.close()


def test_a_closed_one_is_gone_though_it_is_at_work_and_heard_nothing() -> None:
    process = SecondProcess(work.endure)
    process.send(bytes(10_000_000))  # more than a pipe holds
    pid = messages(process, 1)[0]
    process.close()
    assert gone(pid)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupt_of_the_terminal_does_not_reach_it() -> None:
    process = SecondProcess(work.endure)
    try:
        pid = messages(process, 1)[0]
        assert os.getpgid(pid) != os.getpgrp()
        os.kill(pid, signal.SIGINT)
        time.sleep(0.2)
        assert not gone(pid)
    finally:
        process.close()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), 9)", "raise ValueError", "pass"])
def test_it_ends_with_its_starter_however_that_ends(end: str, tmp_path: Path) -> None:
    """The starter is a script that guards against nothing: it is not run again."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[3])!r})\n"
        "from kubestow.solver.executors.second_process import SecondProcess\n"
        "from tests.solver.executors import work\n"
        "process = SecondProcess(work.endure)\n"
        "while not (found := process.received()): pass\n"
        "print('pid', found[0], flush=True)\n"
        f"{end}\n"
    )
    printed = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=PATIENCE, check=False).stdout.split()
    assert printed[::2] == ["pid"]
    until(lambda: gone(int(printed[1])))


def test_a_program_that_brings_its_own_python_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for executable in ("", "/usr/bin/server"):
        monkeypatch.setattr(sys, "executable", executable)
        with pytest.raises(OSError, match="interpreter"):
            SecondProcess(work.endure)


def test_what_cannot_be_sent_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_process, "_started", lambda: pytest.fail("started"))
    with pytest.raises(TypeError):
        SecondProcess(work.parrot, threading.Lock())
