"""Options of a sizing, in addition to those of every search."""

from __future__ import annotations

from dataclasses import dataclass

from kubestow.models.documents.sizing import Mode
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.survive.options import SurviveOptions


@dataclass(frozen=True, slots=True)
class SizeOptions:
    """Options of a sizing.

    Attributes:
        mode: Add nodes, replace the nodes of a pool, or build the cluster from scratch.
        pool: Label selector of the nodes to replace.
        gone: Names of the nodes to replace.
        kinds: Maximum number of different shapes to buy.
        survive: Failures that the cluster must survive.
        manifests: Manifests of ``-w``. The snapshot is the one before manifests and edits; the search options
            hold the edits.
        buffers: True if nodes also hold the chunks of CapacityBuffers.
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
            raise ValueError("mode replace requires pool and gone; other modes allow neither")
        if self.kinds is not None and self.kinds < 1:
            raise ValueError("kinds must be at least 1")
