"""The pods that may be released now, and the reasons why others stay behind the gate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kubestow.live.api.answers import Object
from kubestow.live.gates.fitting import Fitting, Release
from kubestow.live.gates.gate_memory import GateMemory, HoldReason
from kubestow.live.gates.ready import Ready
from kubestow.live.gates.replica_groups import ReplicaGroup


@dataclass(frozen=True)
class Choice:
    """The pods that may be released in the current state of the cluster.

    Attributes:
        ready: All held pods.
        accepted: Pods that fit their nodes.
        behind: Groups that fit no planned node: single pods, or complete gangs.
        fitting: The check of the held pods; None if none has a planned node.
        never: Gangs that were never released whole.
    """

    ready: Ready
    accepted: list[Release] = field(default_factory=list)
    behind: list[list[Release]] = field(default_factory=list)
    fitting: Fitting | None = None
    never: frozenset[str] = frozenset()

    def goes_free(self, group: Sequence[Release]) -> bool:
        """Return True if these pods may be released without planned nodes after the time limit."""
        return group[0].group not in self.never

    def whole(self, went: Sequence[Object]) -> list[list[ReplicaGroup]]:
        """Return the gangs that are released whole with these pods."""
        there = {_uid(pod) for pod in went}
        incomplete_gangs = {release.group for release in self.ready.together if _uid(release.pod) not in there}
        return [
            self.ready.gangs[gang]
            for gang in dict.fromkeys(release.group for release in self.ready.together)
            if gang not in incomplete_gangs
        ]

    def reasons(self, holding: GateMemory, refused: Mapping[str, str], free_after: float | None) -> dict[str, HoldReason]:
        """Return the reasons for held pods by uid.

        ``refused``: the server's refusals by uid. ``free_after``: see :meth:`kubestow.live.gates.gates.Gates.look`.
        """
        found = dict(self._absent())
        why = self.fitting.why if self.fitting is not None else {}
        behind = {group[0].group: group for group in self.behind}
        for release in (*self.ready.together, *self.ready.alone):
            uid, group = _uid(release.pod), behind.get(release.group)
            then = self._then(group, holding, free_after) if group is not None and free_after is not None else ""
            said = why.get(release.group) or refused.get(uid) or "it is about to go"
            found[uid] = HoldReason(release.group, said, then, release.group in self.ready.gangs)
        for pod in (*self.ready.beyond, *self.ready.extra):
            said = refused.get(_uid(pod)) or "the placement has no node for it"
            then = "it goes after its gang" if pod in self.ready.extra and free_after is not None else ""
            found[_uid(pod)] = HoldReason(_uid(pod), said, then)
        return found

    def _absent(self) -> Iterator[tuple[str, HoldReason]]:
        """Yield the held pods of incomplete gangs."""
        for gang, text in self.ready.waiting.items():
            reason = HoldReason(gang, text.partition(": ")[2] + " pods are there", "it goes once all are there", gang=True)
            yield from ((_uid(pod), reason) for replicas in self.ready.gangs[gang] for pod in replicas.gated)

    def _then(self, group: Sequence[Release], holding: GateMemory, free_after: float) -> str:
        """Return the outlook of pods that fit no planned node."""
        if not self.goes_free(group):
            return "it never was whole, and goes once it fits whole"
        wait_seconds = max(0.0, free_after - holding.refuse([release.pod for release in group]))
        return f"if that lasts, the scheduler finds it a node in {wait_seconds:.0f} s"


def _uid(pod: Object) -> str:
    return str(pod["metadata"]["uid"])
