"""How many new pods of one workload quotas and LimitRanges admit while its old pods come to an end.

All new pods of a workload have one template, so that each of them uses the same amount of every quota. What decides is the number of new
pods and which old ones are still there. Amounts are integers: those of a quota's resource are multiplied by their common denominator.

If quotas charge opportunity cost, new pods stay charged as when they are created until the rollout ends. A node that old pods close comes
free when the last one of them goes.

Sources: plugin/pkg/admission/resourcequota and plugin/pkg/admission/limitranger.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import msgspec

from kubestow.models.cluster.admission import QUOTA, Admission, Amounts, Ledger, Refusal, Shortage, amount, exceeded, may_refuse
from kubestow.models.kube import objects
from kubestow.models.kube.namespace_limits import ResourceQuota
from kubestow.models.kube.pod_requests import add
from kubestow.models.snapshot.snapshot import Snapshot

#: More pods than any workload has.
UNLIMITED: Final = 10**9
Limits = dict[str, dict[str, str]]  # by quota, "namespace/name": resources with their new limits


@dataclass(frozen=True)
class SharedNode:
    """A node that several pods of a quota close to others, or on which other pods of it are: what it has counts once.

    Attributes:
        whole: What the node has.
        held: What pods request there that stay.
        kept: Pods that stay close it.
        closers: The old pods that close it, by place.
        on: The old pods there with what they request, which is counted on its own.
    """

    whole: int
    held: int
    kept: bool
    closers: frozenset[int]
    on: tuple[tuple[int, int], ...]

    def excess(self, alive: Collection[int]) -> int:
        """Return what the node counts above the requests there, with these old pods left."""
        if not self.kept and self.closers.isdisjoint(alive):
            return 0
        return max(0, self.whole - self.held - sum(value for k, value in self.on if k in alive))


@dataclass(frozen=True)
class Dimension:
    """A resource of a quota that new pods use.

    Attributes:
        quota: ``namespace/name`` of the ResourceQuota.
        resource: As the quota names it, ``requests.cpu`` say.
        unit: The amounts below are multiples of 1 / unit.
        limit: What the quota allows.
        others: What pods use that stay.
        each: What a new pod is charged, above 0.
        old: What each old pod uses.
        again: What an old pod is charged, at most, that is made again.
        requested: What a new pod requests. It is less than ``each`` if opportunity cost is charged.
        keys: Topology keys whose domains a new pod is charged.
        nodes: Nodes that old pods close and that are not in the amounts above.
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
        """What is used while all old pods are there, and no new one."""
        everyone = range(len(self.old))
        return Fraction(self.others + sum(self.old) + sum(node.excess(everyone) for node in self.nodes), self.unit)

    def shown(self, value: int) -> str:
        return amount(self.resource, Fraction(value, self.unit))


@dataclass(frozen=True)
class RolloutAdmission:
    """What may keep new pods of a workload from being created. ``never``: what refuses every one of them."""

    dimensions: tuple[Dimension, ...] = ()
    never: Refusal | None = None

    @property
    def limits(self) -> bool:
        return bool(self.dimensions) or self.never is not None

    @property
    def uniform(self) -> bool:
        """Return whether it does not matter which of the old pods are gone."""
        return all(len(set(each.old)) <= 1 and not each.nodes for each in self.dimensions)

    @property
    def by_opportunity_cost(self) -> bool:
        """Return whether a new pod is charged more than it requests."""
        return any(each.each > each.requested for each in self.dimensions)

    def beside(self, other: RolloutAdmission) -> RolloutAdmission:
        """Return the same with the amounts of ``other``, which is of the same workload, where more is used at first."""
        found = {(each.quota, each.resource): each for each in other.dimensions}
        pairs = ((each, found.get((each.quota, each.resource), each)) for each in self.dimensions)
        return replace(self, dimensions=tuple(max(pair, key=lambda each: each.at_first) for pair in pairs))

    def raised(self, limits: Sequence[int]) -> Limits:
        """Return by quota the resources whose limit in ``limits``, one of each dimension, is above the quota's, as quantities."""
        found: Limits = {}
        for dimension, limit in zip(self.dimensions, limits, strict=True):
            if limit > dimension.limit:
                found.setdefault(dimension.quota, {})[dimension.resource] = dimension.shown(limit)
        return found


def read(snapshot: Snapshot, old: Sequence[int], new: objects.Pod | None, admission: Admission) -> RolloutAdmission:
    """Return what limits the pods that are like ``new``.

    Args:
        snapshot: With the old pods.
        old: Indices into its pods of those that the new ones replace.
        new: One of the new pods, as it would be stored; None: there is none.
        admission: Of the snapshot without the old pods, the new ones, and those that count as deleted.

    Raises:
        QuantityError: a quantity is malformed, or beyond 64 bits.
    """
    if new is None or not may_refuse(snapshot):
        return RolloutAdmission()
    never, there = admission.always(new), [snapshot.pods[i] for i in old]
    found = [each for ledger in admission.concerned(new) for each in _dimensions(ledger, there, new)]
    return RolloutAdmission(tuple(found), never)


def _dimensions(ledger: Ledger, there: Sequence[objects.Pod], new: objects.Pod) -> Iterator[Dimension]:
    """Yield the resources of a quota that new pods use; ``there``: the old ones."""
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
            others -= max(none, one.whole - one.held) if one.kept else none
            alone = next(iter(one.closers)) if len(one.closers) == 1 and not one.kept and one.on.keys() <= one.closers else None
            if alone is None:
                shared.append(one)
            else:
                old[alone] += max(none, one.whole - one.held - sum(one.on.values()))
        exact = [limit, others, charge[resource], max((use.get(resource, none) for use in again), default=none), usage.get(resource, none)]
        more = [value for one in shared for value in (one.whole, one.held, *one.on.values())]
        unit = math.lcm(*(value.denominator for value in (*exact, *old, *more)))
        most, kept, each_new, remade, requested = (int(value * unit) for value in exact)
        yield Dimension(
            ledger.name, resource, unit, most, kept, each_new, tuple(int(value * unit) for value in old), remade, requested,
            ledger.keys(new), tuple(one.in_units(unit) for one in shared),
        )  # fmt: skip


@dataclass(frozen=True)
class _Closed:
    """As :class:`SharedNode`, of one resource, with exact amounts."""

    whole: Fraction
    held: Fraction
    kept: bool
    closers: frozenset[int]
    on: dict[int, Fraction]

    def in_units(self, unit: int) -> SharedNode:
        on = tuple((k, int(value * unit)) for k, value in sorted(self.on.items()))
        return SharedNode(int(self.whole * unit), int(self.held * unit), self.kept, self.closers, on)


@dataclass(frozen=True)
class _ClosedNode:
    """As :class:`SharedNode`, of all resources."""

    whole: Amounts
    held: Amounts
    kept: bool
    closers: frozenset[int]
    on: dict[int, Amounts]

    def of(self, resource: str) -> _Closed:
        none = Fraction(0)
        on = {k: use.get(resource, none) for k, use in self.on.items()}
        return _Closed(self.whole.get(resource, none), self.held.get(resource, none), self.kept, self.closers, on)


def _closed_nodes(ledger: Ledger, there: Sequence[objects.Pod]) -> list[_ClosedNode]:
    """Return the nodes that old pods close, and those that others close and that old pods are on; none by requests alone."""
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
    kept, held = frozenset[int]().union(*(costs.closed(pod) for pod in ledger.present)), dict[int, Amounts]()
    for pod in ledger.present:
        if (home := costs.home(pod)) is not None:
            add(held.setdefault(home, {}), ledger.usage(pod))
    found = sorted(closers.keys() | (kept & on.keys()))
    return [_ClosedNode(ledger.node(n), held.get(n, {}), n in kept, frozenset(closers.get(n, ())), on.get(n, {})) for n in found]


def _unbound(pod: objects.Pod) -> objects.Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, nodeName=None))


class Book:
    """What is used of each dimension while a rollout goes on. All old pods are there at the start, and no new one.

    ``limits``: one of each dimension; may be raised.
    """

    def __init__(self, admission: RolloutAdmission) -> None:
        self.admission = admission
        self.limits = [each.limit for each in admission.dimensions]
        self._alive = set(range(max((len(each.old) for each in admission.dimensions), default=0)))
        self._used = [each.others + sum(each.old) for each in admission.dimensions]
        self._count_nodes(1)

    def _count_nodes(self, by: int) -> None:
        """Count the nodes that pods close together (1), or no longer (-1)."""
        for d, dimension in enumerate(self.admission.dimensions):
            if dimension.nodes:
                self._used[d] += by * sum(node.excess(self._alive) for node in dimension.nodes)

    def old(self, k: int, by: int) -> None:
        """Count an old pod, by its place: gone (-1), or back (1)."""
        self._count_nodes(-1)
        for d, dimension in enumerate(self.admission.dimensions):
            self._used[d] += by * dimension.old[k]
        if by > 0:
            self._alive.add(k)
        else:
            self._alive.discard(k)
        self._count_nodes(1)

    def new(self, number: int) -> None:
        """Count ``number`` more new pods, or fewer where it is below 0."""
        for d, dimension in enumerate(self.admission.dimensions):
            self._used[d] += number * dimension.each

    def again(self, number: int) -> int:
        """Count old pods that are made again, at most ``number``, as long as they are admitted; return how many."""
        uses = [each.again for each in self.admission.dimensions]
        listed = zip(uses, self.limits, self._used, strict=True)
        found = max(0, min([number, *((limit - used) // use for use, limit, used in listed if use)]))
        self.give_back(-found)
        return found

    def give_back(self, number: int) -> None:
        """Count old pods that were made again as gone."""
        for d, dimension in enumerate(self.admission.dimensions):
            self._used[d] -= number * dimension.again

    def room(self) -> int:
        """Return how many more new pods are admitted."""
        if self.admission.never is not None:
            return 0
        listed = zip(self.admission.dimensions, self.limits, self._used, strict=True)
        return max(0, min((limit - used) // each.each for each, limit, used in listed)) if self.limits else UNLIMITED

    def refusal(self) -> Refusal | None:
        """Return what refuses one more new pod; None if nothing does."""
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
        """Raise the limits by what is missing for one more new pod."""
        for d, each in enumerate(self.admission.dimensions):
            self.limits[d] = max(self.limits[d], self._used[d] + each.each)


def with_quotas(snapshot: Snapshot, raised: Mapping[str, Mapping[str, str]]) -> Snapshot:
    """Return the snapshot with higher limits of quotas, by ``namespace/name`` and resource."""
    found = dict(snapshot.resource_quotas)
    for key, quota in found.items():
        more = raised.get(f"{quota.metadata.namespace or 'default'}/{quota.metadata.name}")
        if more and quota.spec is not None:
            spec = msgspec.structs.replace(quota.spec, hard={**(quota.spec.hard or {}), **more})
            found[key] = msgspec.structs.replace(quota, spec=spec)
    return replace(snapshot, resource_quotas=found)


def sentence(snapshot: Snapshot, raised: Mapping[str, Mapping[str, str]]) -> str:
    """Return the change of :func:`with_quotas` as a sentence: each quota with its old and new limits."""
    parts = []
    for key, limits in sorted(raised.items()):
        before = next(
            (quota.spec.hard or {} for quota in snapshot.resource_quotas.values() if quota.spec is not None and _key(quota) == key), {}
        )
        changed = ", ".join(f"{resource} {limit} instead of {before.get(resource)}" for resource, limit in sorted(limits.items()))
        parts.append(f"raise quota {key.rpartition('/')[2]}: {changed}")
    return "; and ".join(parts)


def arguments(raised: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the parts of the change by name: each quota with its resources and their new limits."""
    return {key: ",".join(f"{resource}={limit}" for resource, limit in sorted(limits.items())) for key, limits in sorted(raised.items())}


def _key(quota: ResourceQuota) -> str:
    return f"{quota.metadata.namespace or 'default'}/{quota.metadata.name}"
