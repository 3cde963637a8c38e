"""Waves judged on separate snapshots, each derived from the one before. Used for clusters with devices, and to test the faster replay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubestow.checker.capacity.waves.unrelated_pods import UnrelatedPods
from kubestow.checker.plan.remaining_steps import rest_faults
from kubestow.checker.violation import Violation
from kubestow.models.documents.upgrade import Upgrade, UpgradeWave
from kubestow.models.edits import upgrade as edits
from kubestow.models.kube import objects
from kubestow.models.snapshot.gc_pause import no_gc
from kubestow.models.snapshot.snapshot import Snapshot

#: Pods to replay, summed over waves. Beyond that only the first wave, the last and evenly spaced waves between are replayed.
MAX_REPLAYED_PODS: Final = 200_000


class SeparateSnapshots:
    """The replay of waves on separate snapshots.

    Attributes:
        replayed: Numbers of the waves that are replayed.
    """

    def __init__(self, start: Snapshot, upgrade: Upgrade, max_pods: int = MAX_REPLAYED_PODS) -> None:
        self._upgrade, self._now = upgrade, start
        waves, many = len(upgrade.waves), max(2, max_pods // max(1, len(start.pods)))
        self.replayed = set(range(1, waves + 1)) if waves <= many else {1 + k * (waves - 1) // (many - 1) for k in range(many)}
        with no_gc():
            self._unrelated = UnrelatedPods(start, upgrade.snapshot.daemonNamespaces)

    def begin(self, wave: UpgradeWave) -> None:
        """Add the surge nodes of a wave."""
        self._now = edits.before(self._now, wave, self._upgrade.to)

    def pods_on(self, drained: Iterable[str]) -> list[objects.Pod]:
        """Return the pods bound to any of the nodes."""
        among = set(drained)
        return [pod for pod in self._now.pods if pod.spec.nodeName in among]

    def runs(self, key: str) -> bool:
        """Return True if the pod runs on a node now."""
        return any(pod.spec.nodeName and objects.pod_key(pod) == key for pod in self._now.pods)

    def drain(self, wave: UpgradeWave) -> list[Violation]:
        """Apply the moves of a wave, remove the drained nodes, add the joining ones, and return the faults."""
        found: list[Violation] = []
        if wave.wave in self.replayed:
            plan = edits.as_plan(wave, self._upgrade.snapshot, self._upgrade.policy)
            there = self._unrelated.without(self._now, {*wave.drain, *(move.to for move in wave.moves)})
            found = rest_faults(there, plan, cordon=False)  # upgrades count nodes that drain until they are gone
        self._now = edits.left_by(self._now, wave, self._upgrade.to)
        return found
