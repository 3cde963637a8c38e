"""Helpers that run a program on its own terminal, or with default signal handlers."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def heard() -> None:
    """Restore signals that a test suite in the background and its children ignore. Pass it as ``preexec_fn``."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def on_a_terminal(command: Sequence[str], environment: Mapping[str, str], folder: Path | None = None) -> tuple[int, str]:
    """Run a command on a terminal, and return its exit code and its output."""
    child, own = pty.openpty()
    process = subprocess.Popen(command, cwd=folder, env=environment, stdin=own, stdout=own, stderr=own)
    os.close(own)
    read = b""
    while select.select([child], [], [], 60)[0]:
        try:
            part = os.read(child, 65536)
        except OSError:  # Linux's error for a closed other end
            break
        if not part:
            break
        read += part
    os.close(child)
    return process.wait(60), read.decode()
