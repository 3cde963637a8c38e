"""Spread constraint counts while nodes join and leave. A domain counts while any of its eligible nodes is present."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from kubestow.checker.rules.pod_topology_spread import state as spread
from kubestow.checker.rules.pod_topology_spread.flows import DomainWatch, Tallies
from kubestow.models.kube import objects
from kubestow.models.kube.feature_gates import FeatureGates


@dataclass
class _Span:
    """The present domains of one topology key over one set of eligible nodes.

    Attributes:
        widths: Number of present eligible nodes per domain.
        counts: The pod counts over these domains.
    """

    widths: Counter[str]
    counts: list[spread.Count] = field(default_factory=list)


class ChangingTallies(Tallies):
    """Pod counts over a changing set of nodes.

    Args:
        nodes: All nodes that ever exist. All are present at first.
        gates: The feature gates.

    Attributes:
        touched: Domains with a changed count, by tally.
    """

    def __init__(self, nodes: Mapping[str, objects.Node], gates: FeatureGates) -> None:
        super().__init__(nodes, gates)
        self._spans: dict[tuple[frozenset[str], str], _Span] = {}
        self.touched: dict[spread.Count, set[str]] = {}

    def _count(self, census: spread.Census) -> spread.Count:
        known = census in self._counts
        count = super()._count(census)
        if not known:
            memo = census.eligible, census.key
            if memo not in self._spans:
                self._spans[memo] = _Span(Counter((self._nodes[name].metadata.labels or {})[census.key] for name in census.eligible))
            self._spans[memo].counts.append(count)
        return count

    def values(self, tally: spread.Count) -> Collection[str]:
        return self._spans[tally.census.eligible, tally.census.key].widths

    def all(self) -> Iterable[spread.Count]:
        """Return all pod counts."""
        return self._counts.values()

    def watches(self, tally: spread.Count) -> Iterable[DomainWatch]:
        """Return the constraints on a tally that pods have registered."""
        return self._by_tally.get(tally, ())

    def join(self, name: str) -> None:
        """Add a node without pods."""
        self._shift(name, 1)

    def leave(self, name: str) -> None:
        """Remove a node whose pods are already removed."""
        self._shift(name, -1)

    def _shift(self, name: str, by: int) -> None:
        """Add a node to its domains or remove it; update the counts of domains that appear or vanish."""
        labels = self._nodes[name].metadata.labels or {}
        for (eligible, key), span in self._spans.items():
            if name not in eligible:
                continue
            domain = labels[key]
            before = span.widths[domain]
            span.widths[domain] = before + by
            if not span.widths[domain]:
                del span.widths[domain]
            if before and before + by:
                continue
            for count in span.counts:
                count.size += by
                level = count.domains.get(domain, 0)
                count.levels[level] = count.levels.get(level, 0) + by
                if not count.levels[level]:
                    del count.levels[level]
                self.touched.setdefault(count, set()).add(domain)
