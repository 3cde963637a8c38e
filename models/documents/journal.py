"""The journal of ``kubestow apply``: one JSON object a line, written to disk before the next request is sent.

A request has a line when it is sent, and a line with the same number when it is answered. Without an answer, its outcome is unknown.
Facts are the observations and decisions of a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from kubestow.models.snapshot.snapshot import InputError

#: Kinds of facts:
#: wave: A wave begins.
#: manifest: The manifest from which a bare pod will be created again.
#: gone: The pod of an eviction no longer exists.
#: replacement: The replacement of a pod exists, or the pod that matches one of a placement of manifests.
#: done: A step is done.
#: closed, opened: Nodes were closed or opened.
#: drift: A difference that is harmless, or that ends the run.
#: undo: An incomplete gang or workload is deleted, as requested.
#: stopped, end: The run stops early, or ends.
What = Literal["wave", "manifest", "gone", "replacement", "done", "closed", "opened", "drift", "undo", "stopped", "end"]


class Run(msgspec.Struct, tag_field="line", tag="run", omit_defaults=True):
    """The start or resumption of a run."""

    run: Annotated[str, Meta(description="The run's id; a resumed run keeps it.")]
    time: Annotated[str, Meta(description="RFC 3339, UTC.")]
    result: Annotated[str, Meta(description="SHA-256 of the applied document: of its file, uncompressed if it is compressed.")]
    snapshot: Annotated[str, Meta(description="SHA-256 of the snapshot, as recorded in the document.")]
    server: Annotated[str, Meta(description="The address of the API server.")]
    cluster: Annotated[str, Meta(description="The uid of the namespace kube-system, which identifies the cluster.")] = ""
    resumes: Annotated[bool, Meta(description="True if an earlier run is resumed.")] = False


class Request(msgspec.Struct, tag_field="line", tag="request", omit_defaults=True):
    """A request that can change the cluster, recorded before it is sent."""

    number: Annotated[int, Meta(description="Its number in the journal, from 1.")]
    time: Annotated[str, Meta(description="RFC 3339, UTC.")]
    method: Annotated[str, Meta(description="POST, PATCH, PUT or DELETE.")]
    path: Annotated[str, Meta(description="The path of its URL.")]
    params: Annotated[dict[str, str], Meta(description="The query parameters of its URL.")] = {}
    body: Annotated[dict[str, Any] | list[Any] | None, Meta(description="The request body; a list for a JSON patch.")] = None
    patch: Annotated[str | None, Meta(description="The patch type of a PATCH: merge, json or strategic.")] = None
    step: Annotated[int | None, Meta(description="The step of the plan that the request belongs to.")] = None
    pod: Annotated[str | None, Meta(description="The pod of that step in the plan, namespace/name.")] = None


class Answered(msgspec.Struct, tag_field="line", tag="answer", omit_defaults=True):
    """The answer to a request, or the loss of its connection (``code`` 0)."""

    number: Annotated[int, Meta(description="The number of the request.")]
    time: Annotated[str, Meta(description="RFC 3339, UTC.")]
    code: Annotated[int, Meta(description="The HTTP status, 0 if no answer came.")]
    reason: Annotated[str, Meta(description="The reason in the Status of a refusal.")] = ""
    message: Annotated[str, Meta(description="The message in the Status of a refusal.")] = ""


class Fact(msgspec.Struct, tag_field="line", tag="fact", omit_defaults=True):
    """An observation or a decision of the run."""

    time: Annotated[str, Meta(description="RFC 3339, UTC.")]
    what: Annotated[What, Meta(description="The kind of fact.")]
    wave: Annotated[int | None, Meta(description="The wave that begins.")] = None
    step: Annotated[int | None, Meta(description="The step concerned.")] = None
    pod: Annotated[str | None, Meta(description="The pod of the step in the plan, namespace/name.")] = None
    now: Annotated[str | None, Meta(description="The replacement of that pod, namespace/name.")] = None
    uid: Annotated[str | None, Meta(description="The uid of the replacement, or of the pod that is gone.")] = None
    nodes: Annotated[list[str], Meta(description="The nodes concerned.")] = []
    object: Annotated[
        dict[str, Any] | None,
        Meta(description="The manifest, the deleted object, or a pod's gates, node affinity and controller as read."),
    ] = None
    message: Annotated[str, Meta(description="A message for the reader.")] = ""


Line = Run | Request | Answered | Fact

#: Suffix that is appended to the file name of the applied document.
ENDING: Final = ".journal.jsonl"

_DECODER: Final = msgspec.json.Decoder[Line](Line)


@dataclass(frozen=True, slots=True)
class Record:
    """The content of a journal.

    Attributes:
        lines: The complete lines; line n of the file is ``lines[n - 1]``.
        size: Length of the complete lines, in bytes.
        torn: True if an incomplete line follows. Its request was never sent.
    """

    lines: list[Line]
    size: int
    torn: bool

    @property
    def run(self) -> Run:
        """The first line, which records the start of the run."""
        first = self.lines[0]
        assert isinstance(first, Run)
        return first


def read(path: str) -> Record:
    """Read a journal from a file.

    Raises:
        InputError: The file cannot be read, or is not a journal.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise InputError([f"{path}: {error.strerror}"]) from error
    record = parse(data, path)
    if not record.lines:
        raise InputError([f"{path}: no journal line found"])
    return record


def parse(data: bytes, name: str) -> Record:
    """Parse a journal, which may be empty. ``name`` is the file name for messages.

    Raises:
        InputError: A complete line is not a journal line, or contradicts an earlier one.
    """
    whole, end, unfinished = data.rpartition(b"\n")
    lines: list[Line] = []
    order = _Order()
    for number, text in enumerate(whole.split(b"\n") if end else (), 1):
        try:
            line = _DECODER.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:  # a ValidationError is a DecodeError
            raise InputError([f"{name}: line {number}: not a journal line: {error}"]) from error
        for fault in order.faults(line):
            raise InputError([f"{name}: line {number}: {fault}"])
        lines.append(line)
    return Record(lines, len(whole) + len(end), bool(unfinished))


class _Order:
    """A check that each journal line is consistent with the lines before it."""

    def __init__(self) -> None:
        self._run: Run | None = None
        self._sent = 0
        self._waiting: set[int] = set()

    def faults(self, line: Line) -> Iterator[str]:
        """Yield the contradictions between the next line and earlier lines, and record the line.

        Call it once for each line, in order.
        """
        if isinstance(line, Run):
            first = self._run or line
            if (line.run, line.result, line.snapshot, line.cluster) != (first.run, first.result, first.snapshot, first.cluster):
                yield "the run, document, snapshot or cluster differs from that of line 1"
            if line.resumes != (self._run is not None):
                yield f"expected {'a resumed run, found a new one' if self._run else 'a new run, found a resumed one'}"
            self._run = first
        elif self._run is None:
            yield "expected a run as the first line"
        elif isinstance(line, Request):
            self._sent += 1
            self._waiting.add(line.number)
            if line.number != self._sent:
                yield f"expected request {self._sent}, got {line.number}"
        elif isinstance(line, Answered):
            if line.number not in self._waiting:
                yield f"answer to request {line.number}, which {'is already answered' if 0 < line.number <= self._sent else 'was not sent'}"
            self._waiting.discard(line.number)
