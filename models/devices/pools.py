"""From ResourceSlices to the view that each node has of each pool: generations, completeness, validity.

Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/pools_incubating.go, as of v1.36.2.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from kubestow.models.kube import device_objects
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.objects import NodeSelector
from kubestow.models.kube.selectors import Bools, NodeColumns

#: Index of a pool's slice and of a device in it; -1: all of its devices.
_Part = tuple[int, int]
#: The slices of a pool that a node sees, and its (slice, device) pairs in slices that choose nodes per device.
_Pattern = tuple[tuple[int, ...], frozenset[tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class PoolView:
    """The view that some nodes have of a pool.

    Attributes:
        slices: Slices with devices for these nodes, by name.
        considered: All slices whose devices count for the counters.
        serving: (slice, device) pairs that serve these nodes, in slices that choose nodes per device.
        broken: Reason why requests for all devices fail.
        last: True if devices have binding conditions; such pools come last.
    """

    nodes: Sequence[int]
    slices: tuple[int, ...]
    considered: tuple[int, ...]
    serving: frozenset[tuple[int, int]]
    broken: str | None
    last: bool


class DevicePool:
    """The slices of one driver under one pool name, in the order of the snapshot."""

    def __init__(
        self, driver: str, name: str, slices: Sequence[device_objects.ResourceSlice], nodes: NodeColumns, gates: FeatureGates
    ) -> None:
        self.driver, self.name, self.slices = driver, name, slices
        self.partitions = gates.enabled("DRAPartitionableDevices")
        self._strict = gates.has("incomplete pools yield no devices")
        self._nodes = nodes
        self._invalid: dict[tuple[int, ...], str | None] = {}

    def views(self, index: Mapping[str, int]) -> Iterator[PoolView]:
        """Yield the views that nodes have of the pool, except for empty ones.

        Args:
            index: Index of each node by name.
        """
        for pattern, nodes in self._patterns(index):
            view = self._view(pattern)
            if view is not None and (view.slices or view.broken):
                yield replace(view, nodes=nodes())

    def _patterns(self, index: Mapping[str, int]) -> Iterator[tuple[_Pattern, Callable[[], Sequence[int]]]]:
        """Yield the slices, of any generation, that nodes see, with a function that returns these nodes."""
        everywhere: list[_Part] = []
        local: dict[int, list[_Part]] = {}
        chosen: list[tuple[_Part, Bools]] = []
        for part, node, everybody, selector in self._parts():
            if node:
                if node in index:
                    local.setdefault(index[node], []).append(part)
            elif everybody:
                everywhere.append(part)
            elif selector is not None:
                chosen.append((part, self._nodes.selector(selector)))
        size = self._nodes.size
        group, groups = np.zeros(size, dtype=np.int64), [everywhere]
        if chosen:
            table, group = np.unique(np.array([mask for _, mask in chosen], dtype=bool), axis=1, return_inverse=True)
            group = group.reshape(-1)
            groups = [[*everywhere, *(part for (part, _), hit in zip(chosen, column, strict=True) if hit)] for column in table.T]
        for i, shared in enumerate(groups):
            if shared:
                yield _pattern(shared), partial(_but, group == i, local)
        same: dict[tuple[object, ...], list[int]] = {}
        for n, parts in local.items():
            same.setdefault((int(group[n]), *parts), []).append(n)
        for members in same.values():
            yield _pattern([*local[members[0]], *groups[int(group[members[0]])]]), partial(list, members)

    def _parts(self) -> Iterator[tuple[_Part, str | None, bool | None, NodeSelector | None]]:
        """Yield the parts with their own choice of nodes: part, nodeName, allNodes, nodeSelector.

        Parts are slices, and devices of slices that choose nodes per device.
        """
        for k, each in enumerate(self.slices):
            spec = each.spec
            if not self.partitions and (spec.perDeviceNodeSelection is not None or spec.sharedCounters):
                continue
            if spec.sharedCounters:
                yield (k, -1), None, True, None
            elif spec.nodeName or spec.allNodes or spec.nodeSelector is not None:
                yield (k, -1), spec.nodeName, spec.allNodes, spec.nodeSelector
            elif spec.perDeviceNodeSelection:
                for d, device in enumerate(spec.devices or ()):
                    yield (k, d), device.nodeName, device.allNodes, device.nodeSelector

    def _view(self, pattern: _Pattern) -> PoolView | None:
        relevant, serving = pattern
        generation = max(self._generation(k) for k in relevant)
        kept = tuple(k for k in relevant if self._generation(k) == generation)
        expected = self.slices[kept[0]].spec.pool.resourceSliceCount
        considered, broken = kept, None
        if len(kept) != expected:
            if any(self._generation(k) > generation for k in range(len(self.slices))):
                return None  # being replaced by a generation that has no devices for these nodes
            considered = tuple(k for k in range(len(self.slices)) if self._generation(k) == generation)
            if len(considered) != expected:
                broken = f"pool {self.name} of {self.driver} is incomplete: {len(considered)} of {expected} slices"
                if self._strict:
                    return PoolView((), (), (), frozenset(), broken, False)
        reason = self._duplicate(kept) or self._unknown_counters(considered)
        if reason is not None:
            return PoolView((), (), (), frozenset(), f"pool {self.name} of {self.driver} is invalid: {reason}", False)
        slices = tuple(sorted((k for k in kept if not self._counts(k)), key=lambda k: self.slices[k].metadata.name or ""))
        last = any(device.bindingConditions for k in slices for device in self.slices[k].spec.devices or ())
        return PoolView((), slices, considered, serving, broken, last)

    def _generation(self, k: int) -> int:
        return self.slices[k].spec.pool.generation

    def _counts(self, k: int) -> bool:
        """Return True if a slice publishes counters instead of devices."""
        return self.partitions and bool(self.slices[k].spec.sharedCounters)

    def _duplicate(self, kept: tuple[int, ...]) -> str | None:
        seen: set[str] = set()
        for k in kept:
            for device in () if self._counts(k) else self.slices[k].spec.devices or ():
                if device.name in seen:
                    return f"two devices {device.name}"
                seen.add(device.name)
        return None

    def counter_sets(self, considered: tuple[int, ...]) -> list[device_objects.CounterSet]:
        return [each for k in considered for each in self.slices[k].spec.sharedCounters or ()] if self.partitions else []

    def _unknown_counters(self, considered: tuple[int, ...]) -> str | None:
        if not self.partitions:
            return None
        if considered not in self._invalid:
            self._invalid[considered] = self._check_counters(considered)
        return self._invalid[considered]

    def _check_counters(self, considered: tuple[int, ...]) -> str | None:
        sets: dict[str, frozenset[str]] = {}
        for each in self.counter_sets(considered):
            if each.name in sets:
                return f"two counter sets {each.name}"
            sets[each.name] = frozenset(each.counters or ())
        for k in considered:
            for device in self.slices[k].spec.devices or ():
                for used in device.consumesCounters or ():
                    if used.counterSet not in sets:
                        return f"device {device.name} consumes counters of {used.counterSet}, a set that does not exist"
                    missing = sorted(set(used.counters or ()) - sets[used.counterSet])
                    if missing:
                        return f"device {device.name} consumes counter {missing[0]}, which counter set {used.counterSet} lacks"
        return None


def _but(nodes: Bools, others: Container[int]) -> list[int]:
    return [n for n in np.flatnonzero(nodes).tolist() if n not in others]


def _pattern(parts: Sequence[_Part]) -> _Pattern:
    return tuple(dict.fromkeys(k for k, _ in parts)), frozenset(part for part in parts if part[1] >= 0)
