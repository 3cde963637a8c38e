"""Waves judged on snapshots of their own, each made of the one before: where devices have a part in it, and to hold the other way to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubestow.checker.capacity.waves.bystanders import Bystanders
from kubestow.checker.plan.rest import rest_faults
from kubestow.checker.violation import Violation
from kubestow.models.documents.upgrade import Upgrade, UpgradeWave
from kubestow.models.edits import upgrade as edits
from kubestow.models.kube import objects
from kubestow.models.snapshot.gc_pause import no_gc
from kubestow.models.snapshot.snapshot import Snapshot

#: Pods, summed over waves, whose rules are replayed; of more waves the first, the last and some between are.
MOST: Final = 200_000


class Anew:
    """``replayed``: numbers of the waves that are."""

    def __init__(self, start: Snapshot, upgrade: Upgrade, most: int = MOST) -> None:
        self._upgrade, self._now = upgrade, start
        waves, many = len(upgrade.waves), max(2, most // max(1, len(start.pods)))
        self.replayed = set(range(1, waves + 1)) if waves <= many else {1 + k * (waves - 1) // (many - 1) for k in range(many)}
        with no_gc():
            self._bystanders = Bystanders(start, upgrade.snapshot.daemonNamespaces)

    def begin(self, wave: UpgradeWave) -> None:
        """The nodes that a wave surges by join."""
        self._now = edits.before(self._now, wave, self._upgrade.to)

    def pods_on(self, drained: Iterable[str]) -> list[objects.Pod]:
        """Return the pods that are bound to nodes."""
        among = set(drained)
        return [pod for pod in self._now.pods if pod.spec.nodeName in among]

    def runs(self, key: str) -> bool:
        """Return whether a pod runs somewhere by now."""
        return any(pod.spec.nodeName and objects.pod_key(pod) == key for pod in self._now.pods)

    def drain(self, wave: UpgradeWave) -> list[Violation]:
        """Return what is wrong with the moves of a wave; they are made, the drained nodes go and others join."""
        found: list[Violation] = []
        if wave.wave in self.replayed:
            plan = edits.as_plan(wave, self._upgrade.snapshot, self._upgrade.policy)
            there = self._bystanders.without(self._now, {*wave.drain, *(move.to for move in wave.moves)})
            found = rest_faults(there, plan, cordon=False)  # upgrades count nodes that drain until they are gone
        self._now = edits.left_by(self._now, wave, self._upgrade.to)
        return found
