"""Where results go: standard output, or a file that is replaced as a whole or not touched at all."""

from __future__ import annotations

import errno
import os
import stat
import sys
import tempfile
from collections.abc import Iterable
from typing import Final

_TEMPORARY: Final = ".kubestow-"


def one_line(text: str) -> str:
    """Return text that cannot break out of its line: control characters and escape sequences are spelled out."""
    return text if text.isprintable() else "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 pod``, ``1,200 pods``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def check_target(path: str) -> None:
    """Find out before a long run whether its result could be written.

    Raises:
        OSError: it could not.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if os.path.isdir(target):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not os.path.isdir(folder):
        code = errno.ENOTDIR if os.path.exists(folder) else errno.ENOENT
        raise OSError(code, os.strerror(code), path)
    exists = os.path.exists(target)
    # A device or a pipe is written in place; a file is replaced, which needs its folder.
    replaced = not exists or os.path.isfile(target)
    if (exists and not os.access(target, os.W_OK)) or (replaced and not os.access(folder, os.W_OK | os.X_OK)):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def write_file(path: str, parts: Iterable[bytes]) -> None:
    """Write a file whole or not at all: a temporary file beside it, then a rename. Symbolic links are followed; devices and pipes
    are written in place; an existing file keeps its permissions. ``parts``: one after the other.

    Raises:
        OSError: nothing was written, and nothing is left behind.
    """
    check_target(path)
    target = os.path.realpath(path)
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        mode = stat.S_IFREG | (0o666 & ~mask)
    if not stat.S_ISREG(mode):
        with open(target, "wb") as device:
            device.writelines(parts)
        return
    descriptor, temporary = tempfile.mkstemp(prefix=_TEMPORARY, dir=os.path.dirname(target))
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(parts)
            os.fchmod(file.fileno(), stat.S_IMODE(mode))
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def write_stdout(parts: Iterable[bytes]) -> None:
    """Write to standard output, past its text encoding. A reader that has gone away (``| head``) is no error.

    Raises:
        OSError: closed from the start, a full device, ...
    """
    if sys.stdout is None:
        raise OSError(errno.EBADF, "standard output is closed")
    try:
        sys.stdout.flush()
        sys.stdout.buffer.writelines(parts)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        _discard_stdout()
    except OSError:
        _discard_stdout()
        raise


def _discard_stdout() -> None:
    """Point standard output at nothing, or the interpreter would try to flush the rest at exit, and complain."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
