"""Remedies as rules suggest them: relaxations, and how they change pods and other objects.

:mod:`kubestow.solver.explain.remedy` tries and proves them. Pods share their parts, so parts are replaced, not modified.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.documents.placement import Remedy
from kubestow.models.kube.objects import Pod
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.ownership import PodOwners

Arguments = Mapping[str, str]
#: Returns the snapshot after a change that concerns some of the given pods (indices).
SnapshotChange = Callable[[Snapshot, Collection[int], Arguments], Snapshot]
#: The change that lowers a request. It asks something of the pods' owner, so moves of running pods are tried next to it.
LOWER_REQUEST: Final = "lowerRequest"
_encoder = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True)
class Idea:
    """A remedy to be tried.

    Attributes:
        rule: Scheduler plugin that it relaxes.
        size: Size of the concession, for comparisons.
    """

    rule: str
    size: int
    remedy: Remedy


@dataclass(frozen=True)
class Number:
    """A number of a rule that a remedy changes.

    Attributes:
        value: The present value.
        limit: The last value that makes a difference.
        remedy: Returns the remedy that sets another value.
        values: Values that make a difference, from the nearest to ``limit``; all integers if empty.
        exact: False if values between these may make a difference, too.
    """

    value: int
    limit: int
    remedy: Callable[[int], Remedy]
    values: tuple[int, ...] = ()
    exact: bool = True

    @property
    def steps(self) -> int:
        """Return the number of steps from the present value to the limit."""
        return len(self.values) or abs(self.limit - self.value)

    def after(self, steps: int) -> Remedy:
        """Return the remedy that sets the value after the given number of steps towards the limit."""
        if self.values:
            return self.remedy(self.values[steps - 1])
        return self.remedy(self.value + (steps if self.limit > self.value else -steps))


@dataclass(frozen=True)
class PodEdit:
    """A change of the pods of the named workloads.

    Attributes:
        edit: Returns a pod after the change.
        new_pods_only: True if running pods keep what the change concerns.
        admitted_again: True if the namespace merges its own requirements into the changed pods again.
    """

    edit: Callable[[Pod, Arguments], Pod]
    new_pods_only: bool = False
    admitted_again: bool = False


def text(part: msgspec.Struct) -> str:
    """Return an API object as an argument: JSON with sorted keys and without unset fields."""
    return _encoder.encode(part).decode()


def with_spec(pod: Pod, **fields: object) -> Pod:
    """Return a pod with fields of its spec replaced."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **fields))


def templates(cluster: Cluster) -> Iterator[tuple[str, Pod]]:
    """Yield an owner and one of its pending pods, for each distinct set of rules."""
    snapshot = cluster.snapshot
    for owner, pods in PodOwners(snapshot).group(cluster.scope.pending).items():
        seen: set[bytes] = set()
        for i in pods:
            spec = snapshot.pods[i].spec
            key = msgspec.json.encode((spec.affinity, spec.nodeSelector, spec.topologySpreadConstraints, spec.tolerations, spec.containers))
            if key not in seen:
                seen.add(key)
                yield owner, snapshot.pods[i]
