"""Output of results: to standard output, or to files that are replaced as a whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat
import sys
import tempfile
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

_TEMPORARY: Final = ".kubestow-"
#: Signals that end the program and would leave a temporary file behind.
_ENDING: Final = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def one_line(text: str) -> str:
    """Return text with control characters and escape sequences spelled out, so that it stays on one line."""
    return text if text.isprintable() else "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 pod``, ``1,200 pods``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def some(names: Sequence[str], limit: int, separator: str = ", ") -> str:
    """Return the first names and the number of the others: ``a, b and 1,200 more``."""
    more = len(names) - limit
    return separator.join(names[:limit]) + (f" and {more:,} more" if more > 0 else "")


def gzipped(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a gzip stream without name and time, so that equal input gives equal bytes."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    for part in parts:
        yield packer.compress(part)
    yield packer.flush()


def check_target(path: str) -> None:
    """Check before a long run that its result can be written.

    Raises:
        OSError: It cannot be written.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if os.path.isdir(target):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not os.path.isdir(folder):
        code = errno.ENOTDIR if os.path.exists(folder) else errno.ENOENT
        raise OSError(code, os.strerror(code), path)
    exists = os.path.exists(target)
    # A device or pipe is written in place. A file is replaced, which requires write access to its folder.
    replaced = not exists or os.path.isfile(target)
    if (exists and not os.access(target, os.W_OK)) or (replaced and not os.access(folder, os.W_OK | os.X_OK)):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def write_file(path: str, parts: Iterable[bytes], *, private: bool = False) -> None:
    """Write a file, in the way of :func:`write_files`."""
    write_files([(path, parts)], private=private)


def write_files(targets: Sequence[tuple[str, Iterable[bytes]]], *, private: bool = False) -> None:
    """Write all files or none: first temporary files in the same folders, then renames.

    Symbolic links are followed. Devices and pipes are written in place, before the files. Existing files keep their
    permissions. A terminating signal acts before the first rename and leaves nothing behind, or it comes too late:
    once the files exist, ^C has no effect.

    Args:
        targets: Paths, each with the bytes in parts.
        private: True to make new files accessible to the owner only, and to remove other permissions from existing
            files.

    Raises:
        OSError: No file was written, and nothing is left behind.
        KeyboardInterrupt: The same, after ^C.
    """
    files = []
    for path, parts in targets:
        check_target(path)
        target = os.path.realpath(path)
        mode = _mode(target)
        if stat.S_ISREG(mode):
            files.append((target, parts, mode & ~0o077 if private else mode))
            continue
        with open(target, "wb") as device:
            device.writelines(parts)
    if not files:
        return
    with _signals_held() as received:
        written: list[tuple[str, str]] = []
        try:
            for target, parts, mode in files:
                descriptor, temporary = tempfile.mkstemp(prefix=_TEMPORARY, dir=os.path.dirname(target))
                written.append((temporary, target))
                with os.fdopen(descriptor, "wb") as file:
                    for part in parts:
                        file.write(part)
                        if received:
                            raise KeyboardInterrupt
                    os.fchmod(file.fileno(), stat.S_IMODE(mode))
            if received:
                raise KeyboardInterrupt
            for temporary, target in written:
                os.replace(temporary, target)
        except BaseException:
            for temporary, _ in written:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary)
            raise


def _mode(target: str) -> int:
    """Return the mode of a file, or the default mode of a new file."""
    try:
        return os.stat(target).st_mode
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return stat.S_IFREG | (0o666 & ~mask)


@contextlib.contextmanager
def _signals_held() -> Iterator[list[int]]:
    """Record terminating signals in the yielded list, and deliver them at the end.

    By then the state is either clean or finished, and a late ^C has no effect. Ignored signals (nohup) stay
    ignored.
    """
    received: list[int] = []
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: how for number in _ENDING if (how := signal.getsignal(number)) not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, lambda number, _: received.append(number))
    try:
        yield received
    finally:
        for number, how in reversed(before.items()):
            signal.signal(number, how)
        for number in received:
            if number != signal.SIGINT:
                os.kill(os.getpid(), number)


def write_stdout(parts: Iterable[bytes]) -> None:
    """Write to standard output, bypassing its text encoding. A closed reader (``| head``) is not an error.

    Raises:
        OSError: Standard output was closed from the start, the device is full, or similar.
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
    """Redirect standard output to the null device. Otherwise the interpreter would report an error when it flushes at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
