"""The journal of ``kubestow apply``: one JSON object a line, each written to disk before the next request is sent.

A request has a line when it is sent and, under the same number, one when it is answered; a request without an answer may or may not have
been carried out. Facts are what a run saw or decided.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from kubestow.models.snapshot.snapshot import InputError

#: What a fact says: a wave begins; the manifest from which a pod without a controller is created again; an eviction's pod is gone; the pod
#: that replaces it, or that stands for one of a placement of manifests, is there; a step is done; nodes were closed or opened; drift that
#: is harmless, or that ends the run; what did not become whole is deleted, as was asked for; the run ends.
What = Literal["wave", "manifest", "gone", "replacement", "done", "closed", "opened", "drift", "undo", "stopped", "end"]


class Run(msgspec.Struct, tag_field="line", tag="run", omit_defaults=True):
    """A run begins, or is resumed."""

    run: Annotated[str, Meta(description="The run's id; a resumed run keeps it.")]
    time: Annotated[str, Meta(description="RFC 3339, UTC.")]
    result: Annotated[str, Meta(description="SHA-256 of the document that is carried out, that of its file unless it is compressed.")]
    snapshot: Annotated[str, Meta(description="SHA-256 of the snapshot, as the document names it.")]
    server: Annotated[str, Meta(description="The address of the API server.")]
    cluster: Annotated[str, Meta(description="The uid of the namespace kube-system, which tells clusters apart.")] = ""
    resumes: Annotated[bool, Meta(description="Whether an earlier run is continued.")] = False


class Request(msgspec.Struct, tag_field="line", tag="request", omit_defaults=True):
    """A request that may change the cluster is sent."""

    number: Annotated[int, Meta(description="Its number in the journal, from 1.")]
    time: Annotated[str, Meta(description="RFC 3339, UTC.")]
    method: Annotated[str, Meta(description="POST, PATCH, PUT or DELETE.")]
    path: Annotated[str, Meta(description="The path of its URL.")]
    params: Annotated[dict[str, str], Meta(description="The query parameters of its URL.")] = {}
    body: Annotated[dict[str, Any] | list[Any] | None, Meta(description="What is sent, a list for a JSON patch.")] = None
    patch: Annotated[str | None, Meta(description="How the body of a PATCH is meant: merge, json or strategic.")] = None
    step: Annotated[int | None, Meta(description="The step of the plan that it is part of.")] = None
    pod: Annotated[str | None, Meta(description="The pod of that step as the plan names it, namespace/name.")] = None


class Answered(msgspec.Struct, tag_field="line", tag="answer", omit_defaults=True):
    """A request is answered, or its connection is lost (``code`` 0)."""

    number: Annotated[int, Meta(description="The number of the request.")]
    time: Annotated[str, Meta(description="RFC 3339, UTC.")]
    code: Annotated[int, Meta(description="The HTTP status, 0 if no answer came.")]
    reason: Annotated[str, Meta(description="The reason of the Status, where the server refused.")] = ""
    message: Annotated[str, Meta(description="What the Status says, where the server refused.")] = ""


class Fact(msgspec.Struct, tag_field="line", tag="fact", omit_defaults=True):
    """Something that the run saw or decided."""

    time: Annotated[str, Meta(description="RFC 3339, UTC.")]
    what: Annotated[What, Meta(description="What it is.")]
    wave: Annotated[int | None, Meta(description="The wave that begins.")] = None
    step: Annotated[int | None, Meta(description="The step that it is about.")] = None
    pod: Annotated[str | None, Meta(description="The pod of the step as the plan names it, namespace/name.")] = None
    now: Annotated[str | None, Meta(description="The pod that takes its place, namespace/name.")] = None
    uid: Annotated[str | None, Meta(description="The uid of that pod, or of the pod that is gone.")] = None
    nodes: Annotated[list[str], Meta(description="The nodes that it is about.")] = []
    object: Annotated[
        dict[str, Any] | None,
        Meta(description="The manifest; gates, node affinity and controller of a pod as read; what is deleted."),
    ] = None
    message: Annotated[str, Meta(description="What a reader should know.")] = ""


Line = Run | Request | Answered | Fact

#: What the name of a journal adds to that of the document that is carried out.
ENDING: Final = ".journal.jsonl"

_DECODER: Final = msgspec.json.Decoder[Line](Line)


@dataclass(frozen=True, slots=True)
class Record:
    """A journal that was read. ``lines``: line n of the file is ``lines[n - 1]``. ``size``: their bytes; what follows them was torn off by
    the end of a run (``torn``), and what it would have said was never acted upon."""

    lines: list[Line]
    size: int
    torn: bool

    @property
    def run(self) -> Run:
        """Return how the run began."""
        first = self.lines[0]
        assert isinstance(first, Run)
        return first


def read(path: str) -> Record:
    """Read a journal from a file.

    Raises:
        InputError: it cannot be read, or is no journal.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise InputError([f"{path}: {error.strerror}"]) from error
    record = parse(data, path)
    if not record.lines:
        raise InputError([f"{path}: no line of a journal"])
    return record


def parse(data: bytes, name: str) -> Record:
    """Read a journal, which may be empty.

    Raises:
        InputError: a line that is whole is not one of a journal, or contradicts one before it. ``name`` is what the message calls the file.
    """
    whole, end, rest = data.rpartition(b"\n")
    lines: list[Line] = []
    order = _Order()
    for number, text in enumerate(whole.split(b"\n") if end else (), 1):
        try:
            line = _DECODER.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:  # a ValidationError is a DecodeError
            raise InputError([f"{name}: line {number}: no line of a journal: {error}"]) from error
        for fault in order.faults(line):
            raise InputError([f"{name}: line {number}: {fault}"])
        lines.append(line)
    return Record(lines, len(whole) + len(end), bool(rest))


class _Order:
    """What lines say of each other."""

    def __init__(self) -> None:
        self._run: Run | None = None
        self._sent = 0
        self._waiting: set[int] = set()

    def faults(self, line: Line) -> Iterator[str]:
        """Take the next line; return what is wrong with it after those before it."""
        if isinstance(line, Run):
            first = self._run or line
            if (line.run, line.result, line.snapshot, line.cluster) != (first.run, first.result, first.snapshot, first.cluster):
                yield "a run of something else than that of line 1"
            if line.resumes != (self._run is not None):
                yield "a run begins in the middle" if self._run else "the run that is resumed is missing"
            self._run = first
        elif self._run is None:
            yield "a journal begins with a run"
        elif isinstance(line, Request):
            self._sent += 1
            self._waiting.add(line.number)
            if line.number != self._sent:
                yield f"expected request {self._sent}, got {line.number}"
        elif isinstance(line, Answered):
            if line.number not in self._waiting:
                yield f"an answer to request {line.number}, which {'has one' if 0 < line.number <= self._sent else 'was not sent'}"
            self._waiting.discard(line.number)
