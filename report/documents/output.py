"""Where results go: standard output, or a file that is replaced as a whole or not touched at all."""

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
#: Signals that end a program, and would leave a temporary file behind.
_ENDING: Final = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def one_line(text: str) -> str:
    """Return text that cannot break out of its line: control characters and escape sequences are spelled out."""
    return text if text.isprintable() else "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 pod``, ``1,200 pods``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def some(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first few names, and how many more there are: ``a, b and 1,200 more``."""
    more = len(names) - most
    return separator.join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def gzipped(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a gzip stream without a name and a time, so that equal input gives equal bytes."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    for part in parts:
        yield packer.compress(part)
    yield packer.flush()


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


def write_file(path: str, parts: Iterable[bytes], *, private: bool = False) -> None:
    """Write a file as :func:`write_files` writes several."""
    write_files([(path, parts)], private=private)


def write_files(targets: Sequence[tuple[str, Iterable[bytes]]], *, private: bool = False) -> None:
    """Write files, each whole and all of them or none: temporary files beside them, then renames. Symbolic links are followed; devices and
    pipes are written in place, before the rest; existing files keep their permissions. ``targets``: paths, and the bytes in parts, one
    after the other. ``private``: a new file is for its owner alone, and an existing one loses what others may.

    A signal that ends the program does so before the first rename, with nothing left behind, or comes too late: once the files are there,
    ^C has nothing to interrupt.

    Raises:
        OSError: no file was written, and nothing is left behind.
        KeyboardInterrupt: the same, after ^C.
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
    """Return the mode of a file, or that of a new one."""
    try:
        return os.stat(target).st_mode
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return stat.S_IFREG | (0o666 & ~mask)


@contextlib.contextmanager
def _signals_held() -> Iterator[list[int]]:
    """Take note of signals that end the program, in the list that this gives, and let them take effect in the end: by then it is either
    clean or finished, and a ^C that finds it finished has no effect. What is ignored (nohup) stays ignored."""
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
