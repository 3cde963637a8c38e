"""The headroom that CapacityBuffers ask for, as documents about capacity have it: for each buffer how many of its chunks fit."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kubestow.models.documents.placement import Assignment, Doc


class BufferRoom(Doc, omit_defaults=True):
    """How many chunks of one CapacityBuffer fit."""

    buffer: Annotated[str, Meta(description="The CapacityBuffer, namespace/name.")]
    chunks: Annotated[int, Meta(description="The chunks that it asks for.")]
    fits: Annotated[
        int, Meta(description="The chunks that fit beside all real pods and the chunks of the buffers that come before it by name.")
    ]
    bound: Annotated[int, Meta(description="No more of its chunks than these fit so, proved.")]
    problem: Annotated[str | None, Meta(description="Why it asks for nothing that is known here, null if it does ask.")] = None


class Headroom(Doc, omit_defaults=True):
    """The headroom of all CapacityBuffers in one state of the cluster."""

    state: Annotated[
        str,
        Meta(
            description="Of a Fit: now, without the replicas, or placed, with all of them. Of a Survival: the domains that fail at once,"
            " separated by commas. Of an Upgrade: the number of the wave, while its nodes are missing."
        ),
    ]
    buffers: Annotated[list[BufferRoom], Meta(description="The buffers, by name.")]
    assignments: Annotated[
        list[Assignment],
        Meta(description="Where real pods that wait and chunks fit, in the order in which they are bound. Nobody creates the chunks."),
    ] = []
    left: Annotated[int, Meta(description="Real pods that wait and found no place, with or without the buffers.")] = 0

    @property
    def whole(self) -> bool:
        """Return whether all chunks of all buffers fit."""
        return all(room.fits == room.chunks for room in self.buffers)
