"""The journal of ``kubestow apply``: one JSON object a line, each written to disk before the next request is sent.

A request has a line when it is sent and, under the same number, one when it is answered; a request without an answer may or may not have
been carried out. Facts are what a run saw or decided.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

#: What a fact says: a wave begins; an eviction's pod is gone; the pod that replaces it is there; a step is done; nodes were closed or
#: opened; drift that is harmless, or that ends the run; the run ends.
What = Literal["wave", "gone", "replacement", "done", "closed", "opened", "drift", "stopped", "end"]


class Run(msgspec.Struct, tag_field="line", tag="run", omit_defaults=True):
    """A run begins, or is resumed."""

    run: Annotated[str, Meta(description="The run's id; a resumed run keeps it.")]
    time: Annotated[str, Meta(description="RFC 3339, UTC.")]
    result: Annotated[str, Meta(description="SHA-256 of the document that is carried out, as its file has it.")]
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
    body: Annotated[dict[str, Any] | None, Meta(description="What is sent.")] = None
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
    uid: Annotated[str | None, Meta(description="The uid of that pod.")] = None
    nodes: Annotated[list[str], Meta(description="The nodes that it is about.")] = []
    message: Annotated[str, Meta(description="What a reader should know.")] = ""


Line = Run | Request | Answered | Fact
