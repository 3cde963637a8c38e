"""The sources of input: files, directories, compressed files, standard input; and the hash that identifies it."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

_SUFFIXES: Final = (".json", ".yaml", ".yml", ".json.gz", ".yaml.gz", ".yml.gz")
ZIP_MAGICS: Final = (b"PK\x03\x04", b"PK\x05\x06")
#: POSIX and GNU archives have this at a fixed position of the first header.
_TAR_MAGIC: Final = b"ustar"
_TAR_MAGIC_OFFSET_BYTES: Final = 257
#: Formats of compression by the first bytes of a file.
_COMPRESSIONS: Final[dict[bytes, tuple[str, type[gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile]]]] = {
    b"\x1f\x8b": ("gzip", gzip.GzipFile),
    b"BZh": ("bzip2", bz2.BZ2File),
    b"\xfd7zXZ\x00": ("xz", lzma.LZMAFile),
}
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_BOM: Final = b"\xef\xbb\xbf"
#: Bytes at the start of a file that show UTF-16: every second byte of ASCII text is NUL.
_UTF16_SAMPLE_BYTES: Final = 64
_CGROUPS: Final = Path("/sys/fs/cgroup")
_PROC: Final = Path("/proc")
#: Bytes read at a time, between two checks of the size limit.
CHUNK_BYTES: Final = 2**20
#: Limit at a quarter of the memory that is free when a file is read.
_LIMIT_BY_MEMORY: Final = -1
_kept: Final[ContextVar[dict[str, bytes] | None]] = ContextVar("kept", default=None)
_limit: Final[ContextVar[int | None]] = ContextVar("limit", default=_LIMIT_BY_MEMORY)
STDIN: Final = "-"

Report = Callable[[str, str], None]


class Found(NamedTuple):
    """A file. ``directory``: the directory in which it was found; None for a file named directly."""

    path: str
    directory: str | None


def files(paths: Sequence[str], report: Report) -> Iterator[Found]:
    """Yield the files that ``paths`` name. Directories are read recursively in name order.

    In directories, only names ending in .json, .yaml, .yml (or those with .gz) count, and hidden entries are
    skipped.

    Args:
        report: Called with path and message for unreadable entries.
    """
    for path in dict.fromkeys(paths):
        if path != STDIN and os.path.isdir(path):
            any_file = False
            for file in _walk(path, (os.path.realpath(path),), set(), report):
                any_file = True
                yield Found(file, path)
            if not any_file:
                report(path, "holds no .json, .yaml or .yml file")
        else:
            yield Found(path, None)


def _walk(directory: str, above: tuple[str, ...], seen: set[str], report: Report) -> Iterator[str]:
    """Yield the files below a directory.

    Args:
        above: The directories on the path to here.
        seen: All directories read so far, so that links cannot lead to one place twice.
    """
    seen.add(above[-1])
    try:
        names = sorted(os.listdir(directory))
    except OSError as error:
        report(directory, _reason(error))
        return
    for name in names:
        if name.startswith("."):
            continue
        path = os.path.join(directory, name)
        if os.path.isdir(path):
            real = os.path.realpath(path)
            if real in above:
                report(path, "is a symbolic link to a directory above it")
            elif real not in seen:
                yield from _walk(path, (*above, real), seen, report)
        elif is_named_like_input(name):
            yield path


@contextmanager
def at_most(limit: int | None) -> Iterator[None]:
    """Limit the size of each decompressed input in this block to ``limit`` bytes; None: no limit.

    The default outside such blocks is a quarter of the free memory.
    """
    before = _limit.set(limit)
    try:
        yield
    finally:
        _limit.reset(before)


@contextmanager
def keeping() -> Iterator[dict[str, bytes]]:
    """Yield a dict that collects the inputs read in this block, by path and in order. Standard input can be read only once."""
    kept: dict[str, bytes] = {}
    before = _kept.set(kept)
    try:
        yield kept
    finally:
        _kept.reset(before)


def read(path: str) -> bytes:
    """Return the content of a file (``-``: standard input), decompressed, as UTF-8 without byte order mark.

    The file is read, not mapped into memory: a mapped file that shrinks would kill the process.

    Raises:
        ValueError: The file is unreadable or too large; the message says why.
    """
    try:
        if path == STDIN:
            if sys.stdin is None:
                raise ValueError("standard input is closed")
            data = _content(sys.stdin.buffer)
        else:
            with open(path, "rb") as file:
                data = _content(file)
        data = _decompressed(data)
    except TooLarge:
        raise
    except (OSError, ValueError) as error:
        raise ValueError(_reason(error)) from None
    except MemoryError:
        raise ValueError("does not fit into memory") from None
    text = data if is_archive(data) else _utf8(data)
    if (kept := _kept.get()) is not None:
        kept[path] = text
    return text


def is_archive(data: bytes) -> bool:
    """Return True if decompressed data are a .tar or .zip archive."""
    return data.startswith(ZIP_MAGICS) or data[_TAR_MAGIC_OFFSET_BYTES : _TAR_MAGIC_OFFSET_BYTES + len(_TAR_MAGIC)] == _TAR_MAGIC


def is_named_like_input(name: str) -> bool:
    """Return True if a file of this name in a directory or an archive is read."""
    return name.lower().endswith(_SUFFIXES)


def unpacked(data: bytes, before: int) -> bytes:
    """Return the content of a file from an archive as :func:`read` returns that of a file.

    Args:
        data: The file as the archive holds it.
        before: Number of bytes that were unpacked from the archive before it, which count towards the limit.

    Raises:
        TooLarge: The files of the archive together exceed the limit.
        ValueError: The content cannot be decompressed or is not text.
    """
    return _utf8(_decompressed(data, before))


def _opened(form: type[gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile], data: bytes) -> gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile:
    file = io.BytesIO(data)
    return form(fileobj=file) if issubclass(form, gzip.GzipFile) else form(file)


def _decompressed(data: bytes, before: int = 0) -> bytes:
    """Return the content of a file that is compressed or not."""
    for magic, (name, form) in _COMPRESSIONS.items():
        if data.startswith(magic):
            try:
                with _opened(form, data) as packed:
                    return _content(packed, " unpacked", before)
            except TooLarge:
                raise
            except (EOFError, OSError, zlib.error, lzma.LZMAError):
                raise ValueError(f"is damaged: not a complete {name} file") from None
    return data


class TooLarge(ValueError):
    """The input exceeds the limit."""


def _content(file: BinaryIO | gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile, form: str = "", before: int = 0) -> bytes:
    """Return the content of a file. It is read in pieces so that endless input is noticed."""
    return joined(iter(lambda: file.read(CHUNK_BYTES), b""), form, before)


def joined(parts: Iterable[bytes], form: str = "", before: int = 0) -> bytes:
    """Return the concatenation of some parts.

    Args:
        form: Words after the size in the message, such as `` unpacked``.
        before: Number of bytes that count towards the limit already.

    Raises:
        ValueError: The content exceeds the limit of :func:`at_most`.
    """
    limit = _limit.get()
    share, free = "", None
    if limit is _LIMIT_BY_MEMORY:
        free = free_memory()
        limit = None if free is None else free // 4
        share = ", a quarter of the free memory"
    buffer = io.BytesIO()
    for part in parts:
        buffer.write(part)
        if limit is not None and before + buffer.tell() > limit:
            raise TooLarge(f"takes more than {_size(limit)}{form}{share}: --max-input SIZE or none lifts this limit")
    return buffer.getvalue()


def _size(limit: int) -> str:
    """Return a number of bytes in a readable unit, rounded down."""
    unit, name = next(
        (unit, name) for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "bytes")) if limit >= unit or unit == 1
    )
    tenths = limit * 10 // unit
    return f"{tenths // 10}.{tenths % 10} {name}" if tenths % 10 and unit > 1 else f"{tenths // 10} {name}"


def free_memory() -> int | None:
    """Return the number of bytes that can still be allocated; None if unknown."""
    return min((max(0, limit) for limit in _limits()), default=None)


def _limits() -> Iterator[int]:
    available = _field(_PROC / "meminfo", "MemAvailable:")
    if available is not None:
        yield available * 1024
    else:
        with suppress(AttributeError, ValueError, OSError):
            yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    yield from _of_groups()
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            yield limit - (_field(_PROC / "self/status", "VmSize:") or 0) * 1024


def _of_groups() -> Iterator[int]:
    """Yield the memory left in the control groups of this process, of version 1 and 2."""
    groups = [line.split(":", 2)[2].strip("/") for line in _lines(_PROC / "self/cgroup") if line.count(":") >= 2]
    for group in dict.fromkeys([*groups, ""]):
        for folder, limit_file, used, reclaimable in (
            (_CGROUPS / group, "memory.max", "memory.current", "inactive_file"),
            (_CGROUPS / "memory" / group, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            limit, usage = _number(folder / limit_file), _number(folder / used)
            if limit is not None and usage is not None:
                yield limit - usage + (_field(folder / "memory.stat", reclaimable) or 0)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii", errors="replace").splitlines()
    except (OSError, ValueError):
        return []


def _number(path: Path) -> int | None:
    text = "".join(_lines(path)[:1]).strip()
    return int(text) if text.isascii() and text.isdigit() else None  # "max" is no limit


def _field(path: Path, name: str) -> int | None:
    """Return the number after a name at the start of a line."""
    words = next((parts for line in _lines(path) if (parts := line.split())[:1] == [name]), ())
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else None


def _utf8(data: bytes) -> bytes:
    """Return text as UTF-8. PowerShell's redirection writes UTF-16; editors on Windows add a byte order mark."""
    try:
        if data.startswith(_UTF16):
            return data.decode("utf-16").encode()
    except UnicodeError:
        raise ValueError("is not UTF-8 text") from None
    start = data[:_UTF16_SAMPLE_BYTES]
    for name, zeros, others in (("UTF-16LE", start[1::2], start[::2]), ("UTF-16BE", start[::2], start[1::2])):
        if len(start) > 1 and not any(zeros) and all(others[: len(zeros)]):
            raise ValueError(f"is {name} without a byte order mark, expected UTF-8 (iconv -f {name} -t UTF-8 converts it)")
    return data.removeprefix(_BOM)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be read: {error.strerror}"
    return f"cannot be read: {error}"


def label(path: str) -> str:
    """Return the name of a file in messages."""
    return "stdin" if path == STDIN else path or "(no file name)"


def digest(data: bytes) -> bytes:
    """Return the SHA-256 of one file's decompressed content."""
    return hashlib.sha256(data).digest()


def fingerprint(item: object) -> bytes:
    """Return the SHA-256 of plain data, as of a file that holds them."""
    try:
        return digest(msgspec.json.encode(item, order="deterministic"))
    except (TypeError, ValueError, OverflowError, RecursionError):  # not representable as JSON
        return digest(b"")


def combine(digests: Iterable[bytes]) -> str:
    """Return one hash for a set of contents, independent of their order. A content given twice counts once."""
    return hashlib.sha256(b"".join(sorted(set(digests)))).hexdigest()
