"""The journal of a run, written to disk before each request. ``--resume`` and ``verify --journal`` read it.

Lines that arrive during a write share the next write and fsync, so that many concurrent requests cost little more than one.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self, Unpack

import msgspec

from kubestow.live.api.answers import Api, Body, Sent, ServerAnswer, Unauthorized, Unreachable
from kubestow.live.apply.kept_journal import set_aside, unfinished
from kubestow.live.apply.progress import ApplyProgress, progress_of
from kubestow.models.documents import journal as lines
from kubestow.models.documents.journal import ENDING, Answered, Fact, Line, Request, Run, What
from kubestow.models.snapshot.snapshot import InputError

_ENCODER = msgspec.json.Encoder()


class JournalLost(Exception):
    """The journal cannot be written any more, so no further request may be sent."""


@dataclass(frozen=True, slots=True)
class RunOrigin:
    """The document and the cluster of a run.

    Attributes:
        result: SHA-256 of the document's text (``read_with_digest`` of results).
        snapshot: SHA-256 of the snapshot, as recorded in the document.
        server: Address of the API server.
        cluster: Uid of the namespace kube-system; empty if it cannot be read.
    """

    result: str
    snapshot: str
    server: str
    cluster: str = ""


def journal_path(result: str) -> str:
    """Return the path of a document's journal, next to the document."""
    return result + ENDING


def _now() -> datetime:
    return datetime.now(UTC)


class Journal:
    """The open journal of a run.

    Attributes:
        path: Path of the file.
        progress: Current progress of the run.
        resumed: True if it continues an earlier run.
        kept: New name of an earlier, finished journal at this path; empty if there was none.
    """

    def __init__(self, path: str, descriptor: int, clock: Callable[[], datetime]) -> None:
        """Use an open, locked file. Call :meth:`open` instead."""
        self.path = path
        self.progress = ApplyProgress()
        self.resumed = False
        self.kept = ""
        self._file = descriptor
        self._clock = clock
        self._number = 0
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._committer: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "journal")
        self._fault: JournalLost | None = None

    @property
    def run(self) -> str:
        """The id of the run, which a resumed run keeps."""
        return self.progress.run

    @classmethod
    def open(cls, path: str, origin: RunOrigin, *, resume: bool = False, clock: Callable[[], datetime] = _now) -> Self:
        """Begin the journal of a new run, or with ``resume`` continue an existing one.

        The finished journal of another document is renamed and kept.

        Raises:
            InputError: the file cannot be written, another run writes it, it is not a journal or one of another document, or it has a run
                that is not to be resumed.
        """
        descriptor = _opened(path)
        try:
            record, kept = _read(descriptor, path), ""
            if _is_finished_other(record, origin):
                kept = _kept(path, record.run.run)
                old, descriptor = descriptor, _opened(path)
                os.close(old)  # releases the lock, which no other run may take before the name is free
                record = _read(descriptor, path)
            journal = cls(path, descriptor, clock)
            journal.kept = kept
            journal._begin(record, origin, resume)
        except BaseException:
            os.close(descriptor)
            raise
        return journal

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait until everything is written, and release the file. A second call does nothing."""
        if self._committer is not None:
            await asyncio.wait([self._committer])
        if self._file >= 0:
            self._thread.shutdown()
            os.close(self._file)  # releases the lock
            self._file = -1
            self._fault = self._fault or JournalLost(f"{self.path}: closed")

    async def request(self, request: Request) -> int:
        """Record a request before it is sent, with its number and time. Return the number once the line is on disk.

        Raises:
            JournalLost: the line cannot be written, so the request must not be sent.
        """
        self._number += 1
        request.number, request.time = self._number, self._time()
        await self._write(request)
        return request.number

    async def answered(self, number: int, code: int, reason: str = "", message: str = "") -> None:
        """Record the answer to a request; ``code`` 0 means no answer.

        Raises:
            JournalLost: the line cannot be written.
        """
        await self._write(Answered(number, self._time(), code, reason, message))

    async def fact(self, what: What, **fields: Any) -> None:
        """Record an observation or decision; ``fields`` are those of :class:`kubestow.models.documents.journal.Fact`.

        Raises:
            JournalLost: the line cannot be written.
        """
        await self._write(Fact(self._time(), what, **fields))

    def _time(self) -> str:
        return self._clock().astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _begin(self, record: lines.Record, origin: RunOrigin, resume: bool) -> None:
        progress = progress_of(record.lines)
        keep = record.size if resume or progress.requests else 0  # a run without requests may begin again
        if keep:
            _same(self.path, record.run, origin, unfinished(progress))
            if not resume:
                raise InputError([f"{self.path}: {_there(record, progress)}"])
            self.progress, self._number, self.resumed = progress, progress.requests, True
        run = self.run or f"{self._clock().astimezone(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
        line = Run(run, self._time(), origin.result, origin.snapshot, origin.server, origin.cluster, self.resumed)
        try:
            os.ftruncate(self._file, keep)
            self._commit(_encoded(line))
            folder = os.open(os.path.dirname(self.path) or ".", os.O_RDONLY)
            try:
                os.fsync(folder)  # so that the name of a new file survives a crash
            finally:
                os.close(folder)
        except OSError as error:
            raise InputError([f"{self.path}: {error.strerror}"]) from error
        self.progress.add(line)

    async def _write(self, line: Line) -> None:
        if self._fault is not None:
            raise self._fault
        self.progress.add(line)
        written = asyncio.get_running_loop().create_future()
        self._waiting.append((_encoded(line), written))
        if self._committer is None or self._committer.done():
            self._committer = asyncio.create_task(self._flush())
        await written

    async def _flush(self) -> None:
        """Write waiting lines in batches until none is left."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            if self._fault is None:
                try:
                    await loop.run_in_executor(self._thread, self._commit, b"".join(line for line, _ in batch))
                except OSError as error:
                    self._fault = JournalLost(f"{self.path}: {error.strerror or error}")
            for _, written in batch:
                if not written.done():  # cancelled
                    if self._fault is None:
                        written.set_result(None)
                    else:
                        written.set_exception(self._fault)

    def _commit(self, data: bytes) -> None:
        """Append bytes and wait until they are on disk."""
        if not os.path.samestat(os.stat(self.path), os.fstat(self._file)):
            raise OSError("the file was replaced by another one")
        while data:
            data = data[os.write(self._file, data) :]
        os.fsync(self._file)


@dataclass(frozen=True, slots=True)
class JournaledApi:
    """An API that records requests in a journal before sending them, and answers before returning them.

    Read requests are not recorded. ``step`` and ``pod`` are those that the requests belong to.
    """

    api: Api
    journal: Journal
    step: int | None = None
    pod: str | None = None

    def of(self, step: int, pod: str) -> JournaledApi:
        """Return the same API for requests of a step's pod."""
        return JournaledApi(self.api, self.journal, step, pod)

    async def send(self, method: str, path: str, body: Body | None = None, **more: Unpack[Sent]) -> ServerAnswer:
        """Send a request; see :meth:`kubestow.live.api.answers.Api.send`.

        Raises:
            Unauthorized: the server refuses the credentials.
            Unreachable: there was no answer.
            JournalLost: the journal cannot be written. A request that was already sent may have been executed.
        """
        if method in ("GET", "HEAD"):
            return await self.api.send(method, path, body, **more)
        meant = more.get("patch", "merge") if method == "PATCH" else None
        number = await self.journal.request(Request(0, "", method, path, dict(more.get("params") or {}), body, meant, self.step, self.pod))
        try:
            answer = await self.api.send(method, path, body, **more)
        except Unauthorized as refused:
            await self.journal.answered(number, refused.answer.code, refused.answer.reason, refused.answer.message)
            raise
        except Unreachable as lost:
            await self.journal.answered(number, 0, message=str(lost))
            raise
        await self.journal.answered(number, answer.code, answer.reason, answer.message)
        return answer


def _encoded(line: Line) -> bytes:
    return _ENCODER.encode(line) + b"\n"


def _opened(path: str) -> int:
    """Open the file and lock it for this process."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise InputError([f"{path}: {error.strerror}"]) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InputError([f"{path}: not a regular file; the journal must outlast the run"])
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError([f"{path}: another run writes this journal"]) from error
        if not _is_at(path, descriptor):  # it was renamed before it was locked here
            raise InputError([f"{path}: another run writes this journal"])
        with contextlib.suppress(PermissionError):  # the file belongs to another owner
            os.fchmod(descriptor, 0o600)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_at(path: str, descriptor: int) -> bool:
    """Return True if the path still leads to the open file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False


def _read(descriptor: int, path: str) -> lines.Record:
    """Read an open journal from its beginning."""
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return lines.parse(file.read(), path)


def _is_finished_other(record: lines.Record, origin: RunOrigin) -> bool:
    """Return True for the journal of another document with a finished run that sent requests."""
    if not record.lines or record.run.result == origin.result:
        return False
    progress = progress_of(record.lines)
    return progress.requests > 0 and not unfinished(progress)


def _kept(path: str, run: str) -> str:
    """Rename a journal and return its new name."""
    try:
        return set_aside(path, run)
    except OSError as error:
        raise InputError([f"{path}: the finished journal of another document cannot be renamed: {error.strerror}"]) from error


def _same(path: str, run: Run, origin: RunOrigin, why: str) -> None:
    """Raise InputError if the journal belongs to another document, snapshot or cluster.

    Clusters are compared by the uid of kube-system, because addresses may change.

    Args:
        path: Path of the journal.
        run: First line of the journal.
        origin: Document, snapshot and cluster of this run.
        why: The reason why the journal's run is unfinished; empty if it is not.
    """
    cluster = (run.cluster, origin.cluster) if run.cluster and origin.cluster else (run.server, origin.server)
    pairs = (
        ("document", (run.result, origin.result)),
        ("snapshot", (run.snapshot, origin.snapshot)),
        ("cluster", cluster),
    )
    for what, (theirs, ours) in pairs:
        if theirs != ours:
            shown = "" if what == "cluster" and run.cluster and origin.cluster else f" ({theirs[:12]}…, not {ours[:12]}…)"
            run_text = f", whose run of {run.time} {why}" if why else ""
            finish = "resume that run with its own document, or " if why and what == "document" else ""
            raise InputError([f"{path}: the journal of another {what}{shown}{run_text}; {finish}move it away to begin again"])


def _there(record: lines.Record, progress: ApplyProgress) -> str:
    """Describe an existing journal that was not to be resumed."""
    done = sum(step.done for step in progress.steps.values())
    pods = f"{done} pod{'' if done == 1 else 's'} done"
    run = f"a run of {record.run.time} that {'ended' if progress.ended else 'was cut off'} with {pods}"
    return f"the journal of {run}; continue with --resume, or move the file away to begin again"


__all__ = ["ENDING", "Journal", "JournalLost", "JournaledApi", "RunOrigin", "journal_path"]
