"""One plugin's run within a cycle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kubestow.audit.descheduler.arguments import PodSelectionArgs
from kubestow.audit.descheduler.evictor import Answer, EvictionAttempt, Evictor
from kubestow.models.kube.selectors import canonical, selector_matches


@dataclass
class PluginRun:
    """A running plugin. ``notes`` explain why it did nothing."""

    plugin: str
    evictor: Evictor
    notes: list[str] = field(default_factory=list)

    def chosen(self, args: PodSelectionArgs) -> Callable[[int], bool]:
        """Return a predicate for the pods that the arguments select."""
        selector = canonical(args.labelSelector.selector()) if args.labelSelector is not None else ()
        pods = self.evictor.state.facts.pods

        def chosen(i: int) -> bool:
            there = pods[i].metadata
            return args.namespaces.have(there.namespace or "default") and selector_matches(selector, there.labels or {})

        return chosen

    def evict(self, i: int, n: int, why: str, *, away: frozenset[int] = frozenset(), frees: bool = False) -> Answer:
        """Request the eviction of a pod from its node. ``away`` and ``frees`` are as in :class:`EvictionAttempt`."""
        request = EvictionAttempt(self.evictor.profile.name, self.plugin, i, n, why, None, away | {n}, frees)
        return self.evictor.ledger.evict(request)
