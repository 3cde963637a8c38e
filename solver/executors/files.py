"""Files for workers elsewhere: read in place where they are seen with the same content, else brought there once, by hash."""

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

#: Bytes that are read, or sent to a worker, at a time.
BLOCK: Final = 4 << 20
#: Bytes of files that were brought to a worker and that it keeps at most, but for those of the task at work.
_KEPT: Final = 4 << 30


@dataclass(frozen=True)
class Shared:
    """What stands for a file or directory: where it lies for who shares it, and its SHA-256."""

    path: str
    digest: str


class NotHereError(Exception):
    """This worker neither sees a file nor was it brought here."""

    def __init__(self, shared: Shared, worker: str = "") -> None:
        super().__init__(shared, worker)
        self.shared, self.worker = shared, worker


@dataclass
class _Kept:
    """A file that was brought here, whole; ``used``: last, on the clock."""

    path: str
    size: int
    used: float


class _Here:
    """What a worker process knows of files."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.kept: dict[str, _Kept] = {}
        self.hashes: dict[tuple[str, int, int], str] = {}
        self.began = 0.0


_here: Final = _Here()


def digest_of(path: str) -> str:
    """Return the SHA-256 of a file, or of all files of a directory with their names.

    Raises:
        OSError: it cannot be read.
    """
    total, place = hashlib.sha256(), Path(path)
    is_folder = place.is_dir()
    for file in sorted(p for p in place.rglob("*") if p.is_file()) if is_folder else [place]:
        total.update(file.relative_to(place).as_posix().encode() + b"\0" if is_folder else b"")
        with file.open("rb") as stream:
            while block := stream.read(BLOCK):
                total.update(block)
    return total.hexdigest()


def local_path(argument: Shared | str) -> str:
    """Return the path under which a task reads what was shared.

    Raises:
        NotHereError: it has to be brought here; the task is then done again.
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


def _sees(shared: Shared) -> bool:
    """Return whether the path has the same content here; a file is hashed once while its size and time stay the same."""
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
    """A task begins: what it uses from now on stays."""
    _here.began = time.monotonic()


def is_kept(digest: str) -> bool:
    """Return whether a file was brought here."""
    return digest in _here.kept


def take(shared: Shared, number: int, block: bytes, *, last: bool, packed: bool, scratch: str | None = None) -> None:
    """Take a block of a file; ``packed``: it is the archive of a directory; ``scratch``: a directory for it.

    Raises:
        OSError: there is no room; or the file changed while it was sent.
    """
    if _here.folder is None:
        _here.folder = tempfile.mkdtemp(prefix="kubestow-", dir=scratch)
    folder = Path(_here.folder, shared.digest)
    folder.mkdir(exist_ok=True)
    part = folder / "part"
    with part.open("ab" if number else "wb") as stream:
        stream.write(block)
    if not last:
        return
    whole, size = folder / (os.path.basename(shared.path) or "snapshot"), part.stat().st_size
    if packed:
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
        if total <= _KEPT:
            return
        if digest != new and kept.used < _here.began:
            total -= kept.size
            del _here.kept[digest]
            shutil.rmtree(Path(_here.folder or "", digest), ignore_errors=True)


def blocks(path: str) -> Iterator[tuple[int, bytes, bool]]:
    """Yield the number of each block of a file, the block, and whether it is the last one; a directory as an archive.

    Raises:
        OSError: it cannot be read.
    """
    with tempfile.TemporaryFile() if os.path.isdir(path) else open(path, "rb") as stream:
        if os.path.isdir(path):
            with tarfile.open(fileobj=stream, mode="w") as archive:
                archive.add(path, arcname="")
            stream.seek(0)
        number, block = 0, stream.read(BLOCK)
        while True:
            following = stream.read(BLOCK)
            yield number, block, not following
            if not following:
                return
            number, block = number + 1, following
