"""What the caller of a sizing may choose beside the options of every search."""

from __future__ import annotations

from dataclasses import dataclass

from kubestow.models.documents.sizing import Mode
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.survive.options import SurviveOptions


@dataclass(frozen=True, slots=True)
class SizeOptions:
    """What is asked of a sizing.

    ``mode``: nodes are added, those that ``pool`` selects (a label selector of nodes; ``gone``: their names) are replaced, or everything
    is built anew. ``kinds``: at most so many shapes are bought. ``survive``: failures that must be survived. ``manifests``: those of -w;
    the snapshot is the one before manifests and edits, which are in the options of the search. ``buffers``: nodes hold the chunks of
    CapacityBuffers, too.
    """

    mode: Mode = "add"
    pool: str | None = None
    gone: tuple[str, ...] = ()
    kinds: int | None = None
    survive: SurviveOptions | None = None
    manifests: Snapshot | None = None
    buffers: bool = True

    def __post_init__(self) -> None:
        if (self.mode == "replace") != (self.pool is not None) or (self.mode == "replace") != bool(self.gone):
            raise ValueError("a pool of nodes is what mode replace is about")
        if self.kinds is not None and self.kinds < 1:
            raise ValueError("kinds must be at least 1")
