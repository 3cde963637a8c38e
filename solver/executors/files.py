"""Files for remote workers: read in place if they are visible there with the same content, otherwise sent once, by hash."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

BLOCK_BYTES: Final = 4 << 20  #: Bytes read or sent at a time.
#: Bytes of received files that a worker keeps, not counting those of the running task.
_MAX_KEPT_BYTES: Final = 4 << 30


@dataclass(frozen=True)
class SharedPath:
    """Reference to a file or directory: its path on the sender, and its SHA-256."""

    path: str
    digest: str


@dataclass(frozen=True)
class FileBlock:
    """A part of a file that is sent.

    Attributes:
        number: Its position. Number 0 begins the file again.
        content: Its bytes.
        last: True for the last block.
        packed: True if the blocks are the archive of a directory.
    """

    number: int
    content: bytes
    last: bool = True
    packed: bool = False


class NotHereError(Exception):
    """A file is neither visible to this worker nor was sent to it."""

    def __init__(self, shared: SharedPath, worker: str = "") -> None:
        super().__init__(shared, worker)
        self.shared, self.worker = shared, worker


@dataclass
class _Kept:
    """A complete received file.

    Attributes:
        path: Path of the copy.
        size: Received bytes.
        used: Time of last use, on the monotonic clock.
    """

    path: str
    size: int
    used: float


class _Here:
    """The files known to a worker process."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.kept: dict[str, _Kept] = {}
        self.hashes: dict[tuple[str, int, int], str] = {}
        self.began = 0.0


_here: Final = _Here()


def digest_of(path: str) -> str:
    """Return the SHA-256 of a file, or of all files of a directory with their relative paths, in hexadecimal.

    Raises:
        OSError: It cannot be read.
    """
    total, place = hashlib.sha256(), Path(path)
    is_folder = place.is_dir()
    for file in sorted(p for p in place.rglob("*") if p.is_file()) if is_folder else [place]:
        total.update(file.relative_to(place).as_posix().encode() + b"\0" if is_folder else b"")
        with file.open("rb") as stream:
            while block := stream.read(BLOCK_BYTES):
                total.update(block)
    return total.hexdigest()


def local_path(argument: SharedPath | str) -> str:
    """Return the path under which a task reads a shared file.

    Raises:
        NotHereError: The file must be sent first. The task is then repeated.
    """
    if isinstance(argument, str):
        return argument
    if _sees(argument):
        return argument.path
    kept = _here.kept.get(argument.digest)
    if kept is None or not os.path.exists(kept.path):
        raise NotHereError(argument)
    kept.used = time.monotonic()
    return kept.path


def _sees(shared: SharedPath) -> bool:
    """Return True if the path has the same content on this machine. A file is hashed again only if its size or time changes."""
    try:
        status = os.stat(shared.path)
        if os.path.isdir(shared.path):
            return digest_of(shared.path) == shared.digest
        key = (shared.path, status.st_size, status.st_mtime_ns)
        if key not in _here.hashes:
            _here.hashes[key] = digest_of(shared.path)
        return _here.hashes[key] == shared.digest
    except OSError:
        return False


def begin() -> None:
    """Record the start of a task: files used from now on are kept."""
    _here.began = time.monotonic()


def is_kept(digest: str) -> bool:
    """Return whether a file was received."""
    return digest in _here.kept


def take(shared: SharedPath, block: FileBlock, scratch: str | None = None) -> None:
    """Append a block to a file that this worker receives. With the last block, check the file's digest and keep it.

    If kept files then exceed _MAX_KEPT_BYTES, delete those that the current task has not used, least recently used first.

    Args:
        shared: The file or directory.
        block: The block, after the others in their order.
        scratch: Directory for received files; None for the system's. Only the first call of a process uses it.

    Raises:
        OSError: There is no space, or the file changed while it was sent.
    """
    if _here.folder is None:
        _here.folder = tempfile.mkdtemp(prefix="kubestow-", dir=scratch)
    folder = Path(_here.folder, shared.digest)
    folder.mkdir(exist_ok=True)
    part = folder / "part"
    with part.open("ab" if block.number else "wb") as stream:
        stream.write(block.content)
    if not block.last:
        return
    whole, size = folder / (os.path.basename(shared.path) or "snapshot"), part.stat().st_size
    if block.packed:
        whole = folder / "content"
        with tarfile.open(part) as archive:
            archive.extractall(whole, filter="data")
        part.unlink()
    else:
        part.replace(whole)
    if digest_of(str(whole)) != shared.digest:
        shutil.rmtree(folder)
        raise OSError(f"{shared.path}: it changed while tasks used it")
    _here.kept[shared.digest] = _Kept(str(whole), size, time.monotonic())
    _make_room(shared.digest)


def _make_room(new: str) -> None:
    total = sum(kept.size for kept in _here.kept.values())
    for digest, kept in sorted(_here.kept.items(), key=lambda item: item[1].used):
        if total <= _MAX_KEPT_BYTES:
            return
        if digest != new and kept.used < _here.began:
            total -= kept.size
            del _here.kept[digest]
            shutil.rmtree(Path(_here.folder or "", digest), ignore_errors=True)


def blocks(path: str) -> Iterator[FileBlock]:
    """Yield the blocks of a file. A directory is sent as an archive.

    Raises:
        OSError: It cannot be read.
    """
    packed = os.path.isdir(path)
    with tempfile.TemporaryFile() if packed else open(path, "rb") as stream:
        if packed:
            with tarfile.open(fileobj=stream, mode="w") as archive:
                archive.add(path, arcname="")
            stream.seek(0)
        number, content = 0, stream.read(BLOCK_BYTES)
        while True:
            following = stream.read(BLOCK_BYTES)
            yield FileBlock(number, content, not following, packed)
            if not following:
                return
            number, content = number + 1, following
