"""The headroom section of capacity documents: for each CapacityBuffer, the number of its chunks that fit."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kubestow.models.documents.placement import Assignment, Doc


class BufferRoom(Doc, omit_defaults=True):
    """The chunks of one CapacityBuffer that fit."""

    buffer: Annotated[str, Meta(description="The CapacityBuffer, namespace/name.")]
    chunks: Annotated[int, Meta(description="The chunks that it requests.")]
    fits: Annotated[int, Meta(description="The chunks that fit in addition to all real pods and the chunks of buffers earlier by name.")]
    bound: Annotated[int, Meta(description="The proved upper bound on `fits`.")]
    problem: Annotated[str | None, Meta(description="The reason why its chunks are unknown, null if they are known.")] = None


class Headroom(Doc, omit_defaults=True):
    """The headroom of all CapacityBuffers in one state of the cluster."""

    state: Annotated[
        str,
        Meta(
            description="In a Fit, `now` (without the replicas) or `placed` (with all of them). In a Survival, the failing domains, "
            "separated by commas. In an Upgrade, the number of the wave whose nodes are missing."
        ),
    ]
    buffers: Annotated[list[BufferRoom], Meta(description="The buffers, by name.")]
    assignments: Annotated[
        list[Assignment],
        Meta(description="The places of pending pods and of chunks, in bind order. No pod is created for a chunk."),
    ] = []
    left: Annotated[int, Meta(description="Pending pods that fit nowhere, with or without the buffers.")] = 0

    @property
    def whole(self) -> bool:
        """True if all chunks of all buffers fit."""
        return all(room.fits == room.chunks for room in self.buffers)
