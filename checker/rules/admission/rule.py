"""Admission plugins of the API server for the checker: pods that cannot be created, and ledgers of created pods."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kubestow.checker.rules.admission import quotas
from kubestow.checker.rules.base import CreationLedger, Fault, Place, StaticRule, World
from kubestow.models.documents.policy import Policy
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot


class Admission(StaticRule[bool]):
    """Pods that a RuntimeClass, a LimitRange, their namespace's annotations or a ResourceQuota refuses, on every node."""

    names = "LimitRanger", "PodNodeSelector", "PodTolerationRestriction", "ResourceQuota"
    order, for_moves = 30, False

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._refused = quotas.refused(world.snapshot, world.policy, world.exempt)

    def read(self, pod: objects.Pod, *, judged: bool) -> bool | None:
        return bool(self._refused) or None

    def faults(self, reading: bool, pod: objects.Pod, place: Place) -> list[Fault]:
        refusal = self._refused.get(objects.pod_key(pod))
        return [] if refusal is None else [refusal]

    @classmethod
    def refused(cls, snapshot: Snapshot, policy: Policy, exempt: Collection[str]) -> Mapping[str, Fault]:
        return quotas.refused(snapshot, policy, exempt)

    @classmethod
    def creations(cls, snapshot: Snapshot, absent: Collection[str], policy: Policy, exempt: Collection[str]) -> CreationLedger:
        return quotas.QuotaBooks(snapshot, absent, policy=policy, exempt=exempt)
