"""Running a program on a terminal of its own, or with signals of its own."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def heard() -> None:
    """For ``preexec_fn``: signals that a suite in the background ignores, and its children with it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def on_a_terminal(command: Sequence[str], environment: Mapping[str, str], folder: Path | None = None) -> tuple[int, str]:
    """Exit code, and what a terminal gets of standard output and standard error."""
    child, own = pty.openpty()
    process = subprocess.Popen(command, cwd=folder, env=environment, stdin=own, stdout=own, stderr=own)
    os.close(own)
    read = b""
    while select.select([child], [], [], 60)[0]:
        try:
            part = os.read(child, 65536)
        except OSError:  # how Linux says that the other side is closed
            break
        if not part:
            break
        read += part
    os.close(child)
    return process.wait(60), read.decode()
