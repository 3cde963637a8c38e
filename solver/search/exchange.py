"""What two searches for preferences tell each other, in two processes: better placements, and what is known of groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.bind_order.order import Sequence_
from kubestow.solver.bounds.component import Component
from kubestow.solver.search.outcome import SoftOutcome


@dataclass(frozen=True)
class PlacementFound:
    """A placement as its bind order, and its points."""

    sequence: Sequence_
    value: int


@dataclass(frozen=True)
class GroupFound:
    """What is known of a group, by its index: the fields of :class:`Component` of these names."""

    index: int
    bound: int
    counts: Ints | None
    value: int | None
    wished: bool
    proved: bool

    @classmethod
    def of(cls, index: int, component: Component) -> GroupFound:
        """Return what is known of it now."""
        return cls(index, component.bound, component.counts, component.value, component.wished, component.proved)

    def note(self, component: Component) -> bool:
        """Take it over where it is more than is known here; whether there is another placement of the group alone."""
        component.bound = min(component.bound, self.bound)
        component.proved |= self.proved
        if self.value is None or not (component.value is None or self.value > component.value or (component.wished and not self.wished)):
            return False
        component.counts, component.value, component.wished = self.counts, self.value, self.wished
        return True


class Peer(Protocol):
    """The other search. ``bounds``: it bounds groups for this one as long as that is so."""

    @property
    def bounds(self) -> bool:
        """Whether this search is to leave groups to it."""

    def begin(self, best: SoftOutcome) -> None:
        """Begin it, from a placement, if it is time."""

    def tell(self, message: PlacementFound | GroupFound) -> None:
        """Send a message."""

    def found(self) -> list[PlacementFound | GroupFound]:
        """Return the messages that have come since this was asked before."""

    def close(self) -> bool:
        """End it; whether it had failed before."""
