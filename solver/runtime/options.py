"""What the caller of a solve may choose, and what a solve reports while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.documents.placement import Edits, Unmodelled
from kubestow.models.documents.policy import DEFAULT, Policy

Engine = Literal["auto", "exact", "greedy", "lns"]


@dataclass(frozen=True, slots=True)
class Options:
    """Choices of one solve; the command line's defaults.

    ``time_limit``: seconds for the whole run (None: until proved or stopped). ``workers``: CP-SAT workers (None: one per core).
    ``deterministic``: interleaved search under deterministic time, so that two runs give the same bytes; the time limit is
    then in CP-SAT's deterministic seconds. ``from_scratch``: movable bound pods are placed again. ``include_gated``: pods with
    scheduling gates are placed too. ``daemon_namespaces``: their pods are exempt from hard anti-affinity, in both directions.
    ``policy``: what preferences weigh. ``search_strategy``: the tie-break gets what time is left; without it only a little.
    ``workloads``, ``edits``, ``unmodelled``: the manifests and what-if edits that are in the snapshot already, and what they ask for in
    vain: for the document only. ``causes``: say why what is left cannot be placed. ``catalogue``: nodes that can be had, for the ways out
    of causes.
    """

    engine: Engine = "auto"
    time_limit: float | None = 60.0
    workers: int | None = None
    seed: int = 0
    deterministic: bool = False
    from_scratch: bool = False
    include_gated: bool = False
    daemon_namespaces: tuple[str, ...] = ()
    policy: Policy = DEFAULT
    search_strategy: bool = False
    workloads: tuple[str, ...] = ()
    edits: Edits | None = None
    unmodelled: tuple[Unmodelled, ...] = ()
    causes: bool = True
    catalogue: Catalogue | None = None

    @property
    def exempt(self) -> tuple[str, ...]:
        """Namespaces exempt from hard anti-affinity: those named here, else the policy's."""
        return self.daemon_namespaces or self.policy.daemonNamespaces

    def __post_init__(self) -> None:
        if self.time_limit is not None and not self.time_limit > 0:
            raise ValueError("time_limit must be positive")
        if self.workers is not None and self.workers < 1:
            raise ValueError("workers must be at least 1")
        if not 0 <= self.seed < 2**31:
            raise ValueError("seed must be in the range 0 to 2147483647")
        if isinstance(self.daemon_namespaces, str):
            raise ValueError(f"daemon_namespaces must be a tuple of names, not the text {self.daemon_namespaces!r}")


@dataclass(frozen=True, slots=True)
class Progress:
    """A sign of life: the phase (compile, greedy, repair, bound, exact, lns, search, verify), for a tier its incumbent and bound, or a
    word on the size."""

    phase: str
    tier: str | None
    priority: int | None
    value: int | None
    bound: int | None
    seconds: float
    detail: str | None = None


OnProgress = Callable[[Progress], None]
