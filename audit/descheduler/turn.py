"""The turn of one plugin in a cycle."""

from __future__ import annotations

from dataclasses import dataclass, field

from audit.descheduler.evictor import Answer, Evictor, Request


@dataclass
class Turn:
    """A plugin at work. ``notes``: why it does nothing, where it says so."""

    plugin: str
    evictor: Evictor
    notes: list[str] = field(default_factory=list)

    def evict(self, i: int, n: int, why: str, *, away: frozenset[int] = frozenset(), frees: bool = False) -> Answer:
        """Ask for the eviction of a pod from its node; ``away``, ``frees``: as in :class:`Request`."""
        request = Request(self.evictor.profile.name, self.plugin, i, n, why, None, away | {n}, frees)
        return self.evictor.ledger.evict(request)
