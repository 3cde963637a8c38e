"""Options of a solve, and the progress that it reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.documents.placement import Edits, Unmodelled
from kubestow.models.documents.policy import DEFAULT, Policy
from kubestow.solver.runtime.engines import ENGINES, EngineStrategy

Engine = Literal["auto", "exact", "greedy", "lns"]


@dataclass(frozen=True, slots=True)
class Options:
    """Options of one solve. The defaults are those of the command line.

    Attributes:
        engine: Search engine.
        time_limit: Seconds for the whole run. None runs until proved or stopped.
        workers: CP-SAT workers. None uses one per core.
        seed: Seed of all random choices.
        deterministic: Use interleaved search and deterministic time, so that two runs give the same bytes. The time limit
            then counts CP-SAT's deterministic seconds.
        from_scratch: Place movable bound pods again.
        include_gated: Place pods with scheduling gates too.
        daemon_namespaces: Namespaces whose pods are exempt from hard anti-affinity, in both directions.
        policy: Weights of preferences.
        search_strategy: Use all remaining time for the tie-break, instead of a little.
        workloads: Manifests that are already in the snapshot; recorded in the document.
        edits: What-if edits that are already in the snapshot; recorded in the document.
        unmodelled: Requests of these that are not honoured; recorded in the document.
        causes: Explain why unplaced pods cannot be placed.
        catalogue: Available node shapes, for remedies.
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
    def strategy(self) -> EngineStrategy:
        """How far the engine searches."""
        return ENGINES[self.engine]

    @property
    def exempt(self) -> tuple[str, ...]:
        """Namespaces exempt from hard anti-affinity: those of the options, or else those of the policy."""
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
    """A progress report.

    Attributes:
        phase: One of compile, greedy, repair, bound, exact, lns, search, verify.
        tier: Tier that it is about, or None.
        priority: Priority of a placed tier, or None.
        value: Incumbent of the tier.
        bound: Bound of the tier.
        seconds: Seconds since the start.
        detail: A note on the size of the problem.
    """

    phase: str
    tier: str | None
    priority: int | None
    value: int | None
    bound: int | None
    seconds: float
    detail: str | None = None


OnProgress = Callable[[Progress], None]
