"""How many new pods of one workload quotas and LimitRanges admit while its old pods come to an end.

All new pods of a workload have one template, so that each of them uses the same amount of every quota. What decides is the number of new
pods and which old ones are still there. Amounts are integers: those of a quota's resource are multiplied by their common denominator.

Sources: plugin/pkg/admission/resourcequota and plugin/pkg/admission/limitranger.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import msgspec

from models.cluster.admission import QUOTA, Admission, Refusal, amount, exceeded, may_refuse
from models.kube import objects
from models.snapshot.snapshot import Snapshot

#: More pods than any workload has.
UNLIMITED: Final = 10**9
Limits = dict[str, dict[str, str]]  # by quota, "namespace/name": resources with their new limits


@dataclass(frozen=True)
class Dimension:
    """A resource of a quota that new pods use.

    Attributes:
        quota: ``namespace/name`` of the ResourceQuota.
        resource: As the quota names it, ``requests.cpu`` say.
        unit: The amounts below are multiples of 1 / unit.
        limit: What the quota allows.
        others: What pods use that stay.
        each: What a new pod uses, above 0.
        old: What each old pod uses.
    """

    quota: str
    resource: str
    unit: int
    limit: int
    others: int
    each: int
    old: tuple[int, ...]

    def crowded(self, others: Fraction) -> Dimension:
        """Return the same with ``others`` as what other pods use, if that is more."""
        unit = math.lcm(self.unit, others.denominator)
        by = unit // self.unit
        most = max(self.others * by, int(others * unit))
        return replace(
            self, unit=unit, limit=self.limit * by, others=most, each=self.each * by, old=tuple(value * by for value in self.old)
        )

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
        return all(len(set(each.old)) <= 1 for each in self.dimensions)

    def beside(self, other: RolloutAdmission) -> RolloutAdmission:
        """Return the same with what the pods that stay use where that is more in ``other``, which is of the same workload."""
        more = {(each.quota, each.resource): Fraction(each.others, each.unit) for each in other.dimensions}
        return replace(self, dimensions=tuple(each.crowded(more[each.quota, each.resource]) for each in self.dimensions))

    def raised(self, limits: Sequence[int]) -> Limits:
        """Return by quota the resources whose limit in ``limits``, one of each dimension, is above the quota's, as quantities."""
        found: Limits = {}
        for dimension, limit in zip(self.dimensions, limits, strict=True):
            if limit > dimension.limit:
                found.setdefault(dimension.quota, {})[dimension.resource] = dimension.shown(limit)
        return found


def read(snapshot: Snapshot, old: Sequence[int], new: objects.Pod | None, gone: Collection[int]) -> RolloutAdmission:
    """Return what limits the pods that are like ``new``.

    Args:
        snapshot: With the old pods.
        old: Indices into its pods of those that the new ones replace.
        new: One of the new pods, as it would be stored; None: there is none.
        gone: Indices of pods that are not there: the new ones, and those that count as deleted.

    Raises:
        QuantityError: a quantity is malformed, or beyond 64 bits.
    """
    if new is None or not may_refuse(snapshot):
        return RolloutAdmission()
    admission = Admission(snapshot, {*old, *gone})
    never = admission.always(new)
    found = []
    for ledger in admission.concerned(new):
        usage, there = ledger.usage(new), [snapshot.pods[i] for i in old]
        uses = [ledger.usage(pod) if ledger.concerns(pod) else {} for pod in there]
        for resource, limit in sorted(ledger.hard.items()):
            if usage.get(resource):
                exact = [limit, ledger.used.get(resource, Fraction(0)), usage[resource], *(use.get(resource, Fraction(0)) for use in uses)]
                unit = math.lcm(*(value.denominator for value in exact))
                most, others, each, *rest = (int(value * unit) for value in exact)
                metadata = ledger.quota.metadata
                name = f"{metadata.namespace or 'default'}/{metadata.name}"
                found.append(Dimension(name, resource, unit, most, others, each, tuple(rest)))
    return RolloutAdmission(tuple(found), never)


class Book:
    """What is used of each dimension while a rollout goes on. All old pods are there at the start, and no new one.

    ``limits``: one of each dimension; may be raised.
    """

    def __init__(self, admission: RolloutAdmission) -> None:
        self.admission = admission
        self.limits = [each.limit for each in admission.dimensions]
        self._used = [each.others + sum(each.old) for each in admission.dimensions]

    def old(self, k: int, by: int) -> None:
        """Count an old pod, by its place: gone (-1), or back (1)."""
        for d, dimension in enumerate(self.admission.dimensions):
            self._used[d] += by * dimension.old[k]

    def new(self, number: int) -> None:
        """Count ``number`` more new pods, or fewer where it is below 0."""
        for d, dimension in enumerate(self.admission.dimensions):
            self._used[d] += number * dimension.each

    def again(self, number: int) -> int:
        """Count old pods that are made again, at most ``number``, as long as they are admitted; return how many."""
        uses = [max(each.old, default=0) for each in self.admission.dimensions]
        listed = zip(uses, self.limits, self._used, strict=True)
        found = max(0, min([number, *((limit - used) // use for use, limit, used in listed if use)]))
        self.give_back(-found)
        return found

    def give_back(self, number: int) -> None:
        """Count old pods that were made again as gone."""
        for d, dimension in enumerate(self.admission.dimensions):
            self._used[d] -= number * max(dimension.old, default=0)

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
                amounts = (Fraction(value, each.unit) for value in (each.each, self._used[d], self.limits[d]))
                over.append((each.resource, *amounts))
        return QUOTA, exceeded(quota.rpartition("/")[2], over)  # type: ignore[arg-type]

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


def _key(quota: object) -> str:
    metadata = quota.metadata  # type: ignore[attr-defined]
    return f"{metadata.namespace or 'default'}/{metadata.name}"
