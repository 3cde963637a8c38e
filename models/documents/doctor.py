"""The answer of ``kubestow doctor``: the state of kubestow's requirements on this machine."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kubestow.models.documents.placement import Doc


class Examined(Doc, omit_defaults=True):
    """The result of one check."""

    name: Annotated[str, Meta(description="The requirement checked.")]
    state: Annotated[
        Literal["ok", "note", "failed"],
        Meta(description="`failed` if a requirement is missing or does not work; `note` if an optional one is; otherwise `ok`."),
    ]
    found: Annotated[str, Meta(description="The value found, such as a version.")]
    meaning: Annotated[str, Meta(description="The consequence and the remedy; empty if the state is ok.")] = ""


class Doctor(Doc):
    """The results of all checks."""

    well: Annotated[bool, Meta(description="True if no check failed.")]
    examined: Annotated[list[Examined], Meta(description="The results of the checks, in order.")]
