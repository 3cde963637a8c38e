"""Admission during a rollout: the number of new pods that quotas and LimitRanges admit while old pods terminate.

All new pods of a workload have one template, so each uses the same amount of every quota. The state consists of the number of new pods
and the set of remaining old pods. Amounts are integers: all amounts of a quota's resource are multiplied by a common denominator.

If quotas charge opportunity cost, new pods keep their creation charge until the rollout ends. A node closed by old pods becomes free when
the last of these pods is gone.

Sources: plugin/pkg/admission/resourcequota and plugin/pkg/admission/limitranger.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import msgspec

from kubestow.models.cluster.admission import QUOTA, Admission, Amounts, QuotaLedger, Refusal, Shortage, amount, exceeded, may_refuse
from kubestow.models.kube import objects
from kubestow.models.kube.namespace_limits import ResourceQuota
from kubestow.models.kube.pod_requests import add
from kubestow.models.snapshot.snapshot import Snapshot

#: A number of pods above the size of any workload.
UNLIMITED_PODS: Final = 10**9
Limits = dict[str, dict[str, str]]  # by quota, "namespace/name": resources with their new limits


@dataclass(frozen=True)
class SharedNode:
    """A closed node that concerns several pods of a quota, so that its resources count once.

    Attributes:
        whole: Allocatable amount of the node.
        resident_usage: Requests of the pods that stay on the node.
        kept: True if pods that stay close the node.
        closers: Positions of the old pods that close the node.
        on: Old pods on the node as (position, request). These requests are counted separately.
    """

    whole: int
    resident_usage: int
    kept: bool
    closers: frozenset[int]
    on: tuple[tuple[int, int], ...]

    def excess(self, alive: Collection[int]) -> int:
        """Return the charge for the node in excess of the requests on it, if the old pods ``alive`` remain."""
        if not self.kept and self.closers.isdisjoint(alive):
            return 0
        return max(0, self.whole - self.resident_usage - sum(value for k, value in self.on if k in alive))


@dataclass(frozen=True)
class Dimension:
    """A resource of a quota that new pods use.

    Attributes:
        quota: ``namespace/name`` of the ResourceQuota.
        resource: Its name in the quota, such as ``requests.cpu``.
        unit: Denominator of the amounts below, which are multiples of 1 / unit.
        limit: Hard limit of the quota.
        others: Usage of the pods that stay.
        each: Charge for a new pod, above 0.
        old: Usage of each old pod.
        again: Upper bound on the charge for an old pod that is created again.
        requested: Request of a new pod. It is less than ``each`` if opportunity cost is charged.
        keys: Topology keys whose domains a new pod is charged for.
        nodes: Nodes closed by old pods that the amounts above do not include.
    """

    quota: str
    resource: str
    unit: int
    limit: int
    others: int
    each: int
    old: tuple[int, ...]
    again: int
    requested: int
    keys: tuple[str, ...] = ()
    nodes: tuple[SharedNode, ...] = ()

    @property
    def at_first(self) -> Fraction:
        """The usage with all old pods and no new pod."""
        everyone = range(len(self.old))
        return Fraction(self.others + sum(self.old) + sum(node.excess(everyone) for node in self.nodes), self.unit)

    def shown(self, value: int) -> str:
        return amount(self.resource, Fraction(value, self.unit))


@dataclass(frozen=True)
class RolloutAdmission:
    """The limits on creating new pods of a workload. ``never`` is the rule that refuses every new pod, or None."""

    dimensions: tuple[Dimension, ...] = ()
    never: Refusal | None = None

    @property
    def limits(self) -> bool:
        return bool(self.dimensions) or self.never is not None

    @property
    def uniform(self) -> bool:
        """True if only the number of remaining old pods matters, not their identity."""
        return all(len(set(each.old)) <= 1 and not each.nodes for each in self.dimensions)

    @property
    def by_opportunity_cost(self) -> bool:
        """True if a new pod is charged more than it requests."""
        return any(each.each > each.requested for each in self.dimensions)

    def with_higher_usage(self, other: RolloutAdmission) -> RolloutAdmission:
        """Return for each dimension the amounts of ``self`` or ``other`` (same workload) with the higher initial usage."""
        by_key = {(each.quota, each.resource): each for each in other.dimensions}
        pairs = ((each, by_key.get((each.quota, each.resource), each)) for each in self.dimensions)
        return replace(self, dimensions=tuple(max(pair, key=lambda each: each.at_first) for pair in pairs))

    def raised(self, limits: Sequence[int]) -> Limits:
        """Return by quota the limits that exceed the quota's, as quantities. ``limits`` has one limit for each dimension."""
        found: Limits = {}
        for dimension, limit in zip(self.dimensions, limits, strict=True):
            if limit > dimension.limit:
                found.setdefault(dimension.quota, {})[dimension.resource] = dimension.shown(limit)
        return found


def read(snapshot: Snapshot, old: Sequence[int], new: objects.Pod | None, admission: Admission) -> RolloutAdmission:
    """Return the limits on creating pods equal to ``new``.

    Args:
        snapshot: The cluster with the old pods.
        old: Indices into ``snapshot.pods`` of the pods to replace.
        new: One of the new pods in stored form, or None if there are none.
        admission: Admission of the snapshot without the old pods, the new pods and pods that count as deleted.

    Raises:
        QuantityError: A quantity is malformed or exceeds 64 bits.
    """
    if new is None or not may_refuse(snapshot):
        return RolloutAdmission()
    never, there = admission.always(new), [snapshot.pods[i] for i in old]
    found = [each for ledger in admission.concerned(new) for each in _dimensions(ledger, there, new)]
    return RolloutAdmission(tuple(found), never)


def _dimensions(ledger: QuotaLedger, there: Sequence[objects.Pod], new: objects.Pod) -> Iterator[Dimension]:
    """Yield the resources of a quota that new pods use. ``there`` has the old pods."""
    none = Fraction(0)
    charge, usage = ledger.charge(new), ledger.usage(new)
    uses = [ledger.admitted(pod) if ledger.concerns(pod) else {} for pod in there]
    again = [ledger.charge(_unbound(pod)) if ledger.concerns(pod) else {} for pod in there] if ledger.costs is not None else uses
    closed = _closed_nodes(ledger, there)
    for resource, limit in sorted(ledger.hard.items()):
        if not charge.get(resource):
            continue
        old, others, shared = [use.get(resource, none) for use in uses], ledger.used.get(resource, none), list[_Closed]()
        for each in closed:
            one = each.of(resource)
            others -= max(none, one.whole - one.resident_usage) if one.kept else none
            alone = next(iter(one.closers)) if len(one.closers) == 1 and not one.kept and one.on.keys() <= one.closers else None
            if alone is None:
                shared.append(one)
            else:
                old[alone] += max(none, one.whole - one.resident_usage - sum(one.on.values()))
        exact = [limit, others, charge[resource], max((use.get(resource, none) for use in again), default=none), usage.get(resource, none)]
        more = [value for one in shared for value in (one.whole, one.resident_usage, *one.on.values())]
        unit = math.lcm(*(value.denominator for value in (*exact, *old, *more)))
        hard, kept, each_new, remade, requested = (int(value * unit) for value in exact)
        yield Dimension(
            ledger.name, resource, unit, hard, kept, each_new, tuple(int(value * unit) for value in old), remade, requested,
            ledger.keys(new), tuple(one.in_units(unit) for one in shared),
        )  # fmt: skip


@dataclass(frozen=True)
class _Closed:
    """A :class:`SharedNode` for one resource, with exact amounts."""

    whole: Fraction
    resident_usage: Fraction
    kept: bool
    closers: frozenset[int]
    on: dict[int, Fraction]

    def in_units(self, unit: int) -> SharedNode:
        on = tuple((k, int(value * unit)) for k, value in sorted(self.on.items()))
        return SharedNode(int(self.whole * unit), int(self.resident_usage * unit), self.kept, self.closers, on)


@dataclass(frozen=True)
class _ClosedNode:
    """A :class:`SharedNode` for all resources."""

    whole: Amounts
    resident_usage: Amounts
    kept: bool
    closers: frozenset[int]
    on: dict[int, Amounts]

    def of(self, resource: str) -> _Closed:
        none = Fraction(0)
        on = {k: use.get(resource, none) for k, use in self.on.items()}
        return _Closed(self.whole.get(resource, none), self.resident_usage.get(resource, none), self.kept, self.closers, on)


def _closed_nodes(ledger: QuotaLedger, there: Sequence[objects.Pod]) -> list[_ClosedNode]:
    """Return the closed nodes that concern old pods, as closers or residents. Empty if only requests are charged."""
    costs = ledger.costs
    if costs is None:
        return []
    closers: dict[int, set[int]] = {}
    on: dict[int, dict[int, Amounts]] = {}
    for k, pod in enumerate(there):
        home = costs.home(pod)
        if home is not None and ledger.concerns(pod):
            on.setdefault(home, {})[k] = ledger.usage(pod)
            for node in costs.closed(pod):
                closers.setdefault(node, set()).add(k)
    kept, usage_by_node = frozenset[int]().union(*(costs.closed(pod) for pod in ledger.present)), dict[int, Amounts]()
    for pod in ledger.present:
        if (home := costs.home(pod)) is not None:
            add(usage_by_node.setdefault(home, {}), ledger.usage(pod))
    nodes = sorted(closers.keys() | (kept & on.keys()))
    return [_ClosedNode(ledger.node(n), usage_by_node.get(n, {}), n in kept, frozenset(closers.get(n, ())), on.get(n, {})) for n in nodes]


def _unbound(pod: objects.Pod) -> objects.Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, nodeName=None))


class Book:
    """The usage of each dimension during a rollout, which starts with all old pods and no new pod.

    Attributes:
        admission: The dimensions.
        limits: The limit of each dimension, which can be raised.
    """

    def __init__(self, admission: RolloutAdmission) -> None:
        self.admission = admission
        self.limits = [each.limit for each in admission.dimensions]
        self._alive = set(range(max((len(each.old) for each in admission.dimensions), default=0)))
        self._used = [each.others + sum(each.old) for each in admission.dimensions]
        self._count_nodes(1)

    def _count_nodes(self, by: int) -> None:
        """Add (1) or subtract (-1) the charge for closed nodes."""
        for d, dimension in enumerate(self.admission.dimensions):
            if dimension.nodes:
                self._used[d] += by * sum(node.excess(self._alive) for node in dimension.nodes)

    def old(self, k: int, by: int) -> None:
        """Record that the old pod at position ``k`` is gone (-1) or back (1)."""
        self._count_nodes(-1)
        for d, dimension in enumerate(self.admission.dimensions):
            self._used[d] += by * dimension.old[k]
        if by > 0:
            self._alive.add(k)
        else:
            self._alive.discard(k)
        self._count_nodes(1)

    def new(self, number: int) -> None:
        """Add ``number`` new pods, or remove some if it is negative."""
        for d, dimension in enumerate(self.admission.dimensions):
            self._used[d] += number * dimension.each

    def again(self, number: int) -> int:
        """Create up to ``number`` old pods again while the quotas admit them, and return the number created."""
        uses = [each.again for each in self.admission.dimensions]
        listed = zip(uses, self.limits, self._used, strict=True)
        repeats = max(0, min([number, *((limit - used) // use for use, limit, used in listed if use)]))
        self.give_back(-repeats)
        return repeats

    def give_back(self, number: int) -> None:
        """Record that old pods which were created again are gone."""
        for d, dimension in enumerate(self.admission.dimensions):
            self._used[d] -= number * dimension.again

    def room(self) -> int:
        """Return the number of further new pods that are admitted."""
        if self.admission.never is not None:
            return 0
        listed = zip(self.admission.dimensions, self.limits, self._used, strict=True)
        return max(0, min((limit - used) // each.each for each, limit, used in listed)) if self.limits else UNLIMITED_PODS

    def refusal(self) -> Refusal | None:
        """Return the rule that refuses one more new pod with its reason, or None."""
        if self.admission.never is not None or self.room():
            return self.admission.never
        short = [d for d, each in enumerate(self.admission.dimensions) if self._used[d] + each.each > self.limits[d]]
        quota = self.admission.dimensions[short[0]].quota
        over = []
        for d in short:
            each = self.admission.dimensions[d]
            if each.quota == quota:
                amounts = (Fraction(value, each.unit) for value in (each.requested, each.each, self._used[d], self.limits[d]))
                over.append(Shortage(each.resource, *amounts))
        return QUOTA, exceeded(quota.rpartition("/")[2], over, self.admission.dimensions[short[0]].keys)

    def admit_one(self) -> None:
        """Raise the limits as needed for one more new pod."""
        for d, each in enumerate(self.admission.dimensions):
            self.limits[d] = max(self.limits[d], self._used[d] + each.each)


def with_quotas(snapshot: Snapshot, raised: Mapping[str, Mapping[str, str]]) -> Snapshot:
    """Return the snapshot with higher quota limits, given by ``namespace/name`` and resource."""
    found = dict(snapshot.resource_quotas)
    for key, quota in found.items():
        more = raised.get(f"{quota.metadata.namespace or 'default'}/{quota.metadata.name}")
        if more and quota.spec is not None:
            spec = msgspec.structs.replace(quota.spec, hard={**(quota.spec.hard or {}), **more})
            found[key] = msgspec.structs.replace(quota, spec=spec)
    return replace(snapshot, resource_quotas=found)


def sentence(snapshot: Snapshot, raised: Mapping[str, Mapping[str, str]]) -> str:
    """Return the change made by :func:`with_quotas` as a sentence with the old and new limits of each quota."""
    parts = []
    for key, limits in sorted(raised.items()):
        before = next(
            (quota.spec.hard or {} for quota in snapshot.resource_quotas.values() if quota.spec is not None and _key(quota) == key), {}
        )
        changed = ", ".join(f"{resource} {limit} instead of {before.get(resource)}" for resource, limit in sorted(limits.items()))
        parts.append(f"raise quota {key.rpartition('/')[2]}: {changed}")
    return "; and ".join(parts)


def arguments(raised: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the change as arguments: the new limits of each quota, by ``namespace/name``."""
    return {key: ",".join(f"{resource}={limit}" for resource, limit in sorted(limits.items())) for key, limits in sorted(raised.items())}


def _key(quota: ResourceQuota) -> str:
    return f"{quota.metadata.namespace or 'default'}/{quota.metadata.name}"
