"""Messages between two searches for preferences in two processes: better placements, and results for groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.bind_order.order import Sequence_
from kubestow.solver.bounds.component import ClassComponent
from kubestow.solver.search.outcome import SoftOutcome


@dataclass(frozen=True)
class PlacementFound:
    """A placement, as its bind order, with its points."""

    sequence: Sequence_
    value: int


@dataclass(frozen=True)
class GroupFound:
    """Results for a group, by its index. The other fields are those of :class:`ClassComponent`."""

    index: int
    bound: int
    counts: Ints | None
    value: int | None
    unverified: bool
    proved: bool

    @classmethod
    def of(cls, index: int, component: ClassComponent) -> GroupFound:
        """Return the current results for a group."""
        return cls(index, component.bound, component.counts, component.value, component.unverified, component.proved)

    def note(self, component: ClassComponent) -> bool:
        """Merge these results into ``component`` where they are better. Return whether the group's own placement changed."""
        component.bound = min(component.bound, self.bound)
        component.proved |= self.proved
        if self.value is None or not (
            component.value is None or self.value > component.value or (component.unverified and not self.unverified)
        ):
            return False
        component.counts, component.value, component.unverified = self.counts, self.value, self.unverified
        return True


class Peer(Protocol):
    """The search in the other process."""

    @property
    def bounds(self) -> bool:
        """True if this search leaves groups to the peer."""

    def begin(self, best: SoftOutcome) -> None:
        """Start the peer from a placement, if it is time."""

    def send(self, message: PlacementFound | GroupFound) -> None:
        """Send a message."""

    def received(self) -> list[PlacementFound | GroupFound]:
        """Return the messages that arrived since the last call."""

    def close(self) -> bool:
        """End the peer. Return whether it had failed."""
