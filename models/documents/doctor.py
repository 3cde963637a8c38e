"""What ``kubestow doctor`` answers: what is there of what kubestow needs, and what is missing means."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kubestow.models.documents.placement import Doc


class Examined(Doc, omit_defaults=True):
    """One thing that was looked at."""

    name: Annotated[str, Meta(description="What was looked at.")]
    state: Annotated[
        Literal["ok", "note", "failed"],
        Meta(description="How it is: `failed`, something that is needed is missing or does not work; `note`, something optional is so."),
    ]
    found: Annotated[str, Meta(description="What was found, such as a version.")]
    meaning: Annotated[str, Meta(description="What that means, and what to do; empty where all is well.")] = ""


class Doctor(Doc):
    """What ``kubestow doctor`` found."""

    well: Annotated[bool, Meta(description="Whether nothing failed.")]
    examined: Annotated[list[Examined], Meta(description="All that was looked at, in order.")]
