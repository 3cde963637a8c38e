"""What may go behind the gate at a moment, and why the rest stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kubestow.live.api.answers import Object
from kubestow.live.gates.crews import Crew
from kubestow.live.gates.fitting import Fitting, Release
from kubestow.live.gates.holding import Holding, Reason
from kubestow.live.gates.ready import Ready


@dataclass(frozen=True)
class Choice:
    """What may go as the cluster is known to be.

    Attributes:
        ready: All held pods.
        accepted: What may go to its node, by ``fitting``.
        behind: What no planned node takes: a pod that goes alone, or a gang that is all there.
        fitting: What was accepted or not, and why; None if no held pod has a planned node.
        never: Gangs that never were let go whole.
    """

    ready: Ready
    accepted: list[Release] = field(default_factory=list)
    behind: list[list[Release]] = field(default_factory=list)
    fitting: Fitting | None = None
    never: frozenset[str] = frozenset()

    def goes_free(self, group: Sequence[Release]) -> bool:
        """Return True if these pods may go without planned nodes once they are late."""
        return group[0].group not in self.never

    def whole(self, went: Sequence[Object]) -> list[list[Crew]]:
        """Return the gangs that these pods make whole."""
        there = {_uid(pod) for pod in went}
        left = {release.group for release in self.ready.together if _uid(release.pod) not in there}
        return [self.ready.gangs[gang] for gang in dict.fromkeys(release.group for release in self.ready.together) if gang not in left]

    def reasons(self, holding: Holding, refused: Mapping[str, str], free_after: float | None) -> dict[str, Reason]:
        """Return by uid why pods are held. ``refused``: by uid what the server said; ``free_after``: as
        :meth:`kubestow.live.gates.gates.Gates.look` has it."""
        found = dict(self._absent())
        why = self.fitting.why if self.fitting is not None else {}
        behind = {group[0].group: group for group in self.behind}
        for release in (*self.ready.together, *self.ready.alone):
            uid, group = _uid(release.pod), behind.get(release.group)
            then = self._then(group, holding, free_after) if group is not None and free_after is not None else ""
            said = why.get(release.group) or refused.get(uid) or "it is about to go"
            found[uid] = Reason(release.group, said, then, release.group in self.ready.gangs)
        for pod in (*self.ready.beyond, *self.ready.extra):
            said = refused.get(_uid(pod)) or "the placement has no node for it"
            then = "it goes after its gang" if pod in self.ready.extra and free_after is not None else ""
            found[_uid(pod)] = Reason(_uid(pod), said, then)
        return found

    def _absent(self) -> Iterator[tuple[str, Reason]]:
        """Yield the held pods of gangs of which others are not there."""
        for gang, text in self.ready.waiting.items():
            reason = Reason(gang, text.partition(": ")[2] + " pods are there", "it goes once all are there", gang=True)
            yield from ((_uid(pod), reason) for crew in self.ready.gangs[gang] for pod in crew.held)

    def _then(self, group: Sequence[Release], holding: Holding, free_after: float) -> str:
        """Return what becomes of pods that no planned node takes."""
        if not self.goes_free(group):
            return "it never was whole, and goes once it fits whole"
        left = max(0.0, free_after - holding.refuse([release.pod for release in group]))
        return f"if that lasts, the scheduler finds it a node in {left:.0f} s"


def _uid(pod: Object) -> str:
    return str(pod["metadata"]["uid"])
