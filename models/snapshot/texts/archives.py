"""Archives as input: must-gathers, support bundles and dumps as .tar or .zip, read within the size limit.

A compressed .tar is decompressed by :mod:`kubestow.models.snapshot.sources` before it comes here.
"""

from __future__ import annotations

import io
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from kubestow.models.kube.lenient_decode import some
from kubestow.models.snapshot import sources

#: Folder in which macOS stores attributes of the files of a .zip.
_MACOS_FOLDER: Final = "__MACOSX"
_CHART_FILE: Final = "Chart.yaml"
_MAX_NAMED_ENTRIES: Final = 5
#: Errors of the two libraries for archives that are damaged, encrypted, or compressed in an unknown way.
_DAMAGE: Final = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, struct.error, RuntimeError, OSError)

Report = Callable[[str, str], None]


class Member(NamedTuple):
    """A file in an archive. ``path``: the path of the archive, a slash, and the name in it."""

    path: str
    data: bytes


class _Entry(NamedTuple):
    """An entry of the table of contents.

    Attributes:
        parts: Its folders and its name.
        is_link: True for links, devices and the like.
        read: Returns the content, given the number of bytes that count towards the limit already.
    """

    parts: tuple[str, ...]
    is_link: bool
    read: Callable[[int], bytes]


def members(data: bytes, path: str, report: Report) -> Iterator[Member]:
    """Yield the files of an archive that directories are read for, in name order.

    Nothing is written to disk, and links are not followed.

    Args:
        data: The archive, decompressed if it is a .tar.
        path: The path of the archive.
        report: Called with path and message for an archive that cannot be read, links in place of files, and
            names that lead out of the archive. Nothing is yielded then.
    """
    try:
        entries = sorted(_zipped(data) if data.startswith(sources.ZIP_MAGICS) else _tarred(data), key=lambda entry: entry.parts)
    except (*_DAMAGE, ValueError) as error:
        report(path, f"is damaged: not a complete archive ({error})")
        return
    refusal = _refusal(entries)
    if refusal is not None:
        report(path, refusal)
        return
    unpacked_bytes = 0
    for entry in entries:
        name = "/".join((path, *entry.parts))
        try:
            content = sources.unpacked(entry.read(unpacked_bytes), unpacked_bytes)
        except sources.TooLarge as error:
            report(path, str(error))
            return
        except ValueError as error:
            report(name, str(error))
            continue
        except _DAMAGE as error:
            report(name, f"is damaged or encrypted: {error}")
            continue
        unpacked_bytes += len(content)
        yield Member(name, content)


def _refusal(entries: list[_Entry]) -> str | None:
    """Return the reason why an archive is not read; None if it is."""
    outside = ["/".join(entry.parts) for entry in entries if ".." in entry.parts or entry.parts[0].startswith("/")]
    if outside:
        return f"names files outside of itself: {some(outside, _MAX_NAMED_ENTRIES)}"
    links = ["/".join(entry.parts) for entry in entries if entry.is_link]
    if links:
        return f"has links or devices in place of files, which are not followed: {some(links, _MAX_NAMED_ENTRIES)}"
    if any(entry.parts[1:] == (_CHART_FILE,) for entry in entries):
        return "is a packaged Helm chart, expected objects (helm template NAME CHART prints them)"
    if not entries:
        return "holds no .json, .yaml or .yml file"
    return None


def _is_wanted(parts: tuple[str, ...]) -> bool:
    hidden = any(part.startswith(".") and part != ".." for part in parts)
    return bool(parts) and not hidden and parts[0] != _MACOS_FOLDER and sources.is_named_like_input(parts[-1])


def _tarred(data: bytes) -> Iterator[_Entry]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for member in archive.getmembers():
            parts = PurePosixPath(member.name).parts
            if not member.isdir() and _is_wanted(parts):
                content = slice(member.offset_data, member.offset_data + member.size)
                yield _Entry(parts, not member.isreg() or member.issparse(), partial(_cut, data, content))
        if data[archive.offset : archive.offset + tarfile.BLOCKSIZE] != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError("its end is missing")


def _cut(data: bytes, content: slice, _before: int) -> bytes:
    return data[content]  # the limit held for the archive as a whole


def _zipped(data: bytes) -> Iterator[_Entry]:
    archive = zipfile.ZipFile(io.BytesIO(data))
    for info in archive.infolist():
        parts = PurePosixPath(info.filename.replace("\\", "/")).parts
        if not info.is_dir() and _is_wanted(parts):
            mode = info.external_attr >> 16  # zero in archives made on Windows
            yield _Entry(parts, stat.S_IFMT(mode) not in (0, stat.S_IFREG), partial(_inflated, archive, info))


def _inflated(archive: zipfile.ZipFile, info: zipfile.ZipInfo, before: int) -> bytes:
    with archive.open(info) as file:
        return sources.joined(iter(lambda: file.read(sources.CHUNK_BYTES), b""), " unpacked", before)
