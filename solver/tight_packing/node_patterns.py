"""Sets of pods (*patterns*) that fit one node and leave little room unused, listed by meeting in the middle.

Every set of a half is one integer with a field for each resource. See docs/algorithms/tight-packing.md (Listing)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import gcd

import numpy as np
from numpy.typing import NDArray

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools

_MAX_FIELD_BITS = 62  #: Bits of an integer that all fields may take.


@dataclass(frozen=True)
class PatternParameters:
    """Limits on listing sets.

    Attributes:
        max_states: Sets of one half of the classes.
        min_listed_states: The same if patterns are listed, regardless of the time.
        max_listed_states: The same, given enough time.
        states_per_second: The same, per second.
        max_pairs: Pairs of sets that match in the first resource.
        few_states_per_second: Sets of half the pods of a pattern of few pods, per second.
        max_few_states: The same, given enough time.
    """

    max_states: int = 4_000_000
    min_listed_states: int = 30_000
    max_listed_states: int = 400_000
    states_per_second: int = 150_000
    max_pairs: int = 2_000_000
    few_states_per_second: int = 4_000_000
    max_few_states: int = 6_000_000


PARAMETERS = PatternParameters()


@dataclass
class NodeRoom:
    """A node and the pods that may be on it. Shapes: K classes, R resources.

    Attributes:
        room: int64[R].
        demand: int64[K, R].
        count: Maximum pods of each class, int64[K].
        spare: Maximum unused amount of each resource, int64[R].
    """

    room: Ints
    demand: Ints
    count: Ints
    spare: Ints


@dataclass
class _Half:
    """All sets of pods of one half of the classes.

    Attributes:
        residual: Packed residual capacity of each set, int64[S].
        steps: Per class, its index, and for each set so far its pods of the class and its previous set, int64[S'] each.
    """

    residual: Ints
    steps: list[tuple[int, Ints, Ints]] = field(default_factory=list)

    def pods(self, chosen: Ints, classes: int) -> Ints:
        """Return int64[len(chosen), K]: pods of each class in these sets."""
        found = np.zeros((len(chosen), classes), dtype=np.int64)
        for k, pods, before in reversed(self.steps):
            found[:, k] = pods[chosen]
            chosen = before[chosen]
        return found


@dataclass
class _Level:
    """All sets of a given number of pods that fit, ordered by their last class.

    Attributes:
        load: Packed demand, int64[S].
        run: Number of pods of the set's last class, int64[S].
        before: Index in the level below of the set without its last pod, int32[S].
        ends: End of the sets of each last class, int64[K' + 1].
    """

    load: Ints
    run: Ints
    before: NDArray[np.int32]
    ends: Ints


class NodePatterns:
    """The patterns of a node. Methods return None if there are too many sets to list, or if ``stopped`` returned True."""

    def __init__(self, node: NodeRoom, stopped: Callable[[], bool] = lambda: False) -> None:
        self.node, self.stopped = node, stopped
        self.classes = np.flatnonzero((node.count > 0) & (node.demand <= node.room).all(axis=1))
        self.requested: Bools = np.asarray(node.demand[self.classes].any(axis=0))
        fields = self._fields()
        self.fields, self.fit = fields or [], fields is not None

    def exist(self) -> bool | None:
        """Return whether there is any pattern."""
        pairs = self._search(PARAMETERS.max_states, keep=False)
        return None if pairs is None else len(pairs[0]) > 0

    def all(self, seconds: float, listed: int) -> Ints | None:
        """Return all patterns, int64[P, K]. None if there are more than ``listed``, or too many to list in ``seconds``."""
        limit = max(PARAMETERS.min_listed_states, int(min(PARAMETERS.max_listed_states, PARAMETERS.states_per_second * seconds)))
        pairs = self._search(limit, keep=True)
        if pairs is None or len(pairs[0]) > listed:
            return None
        size = len(self.node.count)
        return np.asarray(pairs[2].pods(pairs[0], size) + pairs[3].pods(pairs[1], size))

    def of_few_pods(self, pods: int, seconds: float) -> Ints | None:
        """Return all patterns of at most ``pods`` pods, int64[P, K]. None if there are too many to list in ``seconds``."""
        if not self.fit or not self.fields:
            return None
        levels = self._levels(-(-pods // 2), min(PARAMETERS.max_few_states, int(PARAMETERS.few_states_per_second * seconds)))
        if levels is None:
            return None
        loads = [np.sort(level.load) for level in levels]  # sorting values is much faster than sorting indices
        listed = [np.zeros((0, len(self.node.count)), dtype=np.int64)]
        for size in range(pods + 1):
            patterns = self._of_size(levels, loads, size)
            if patterns is None:
                return None
            listed.append(patterns)
        return np.concatenate(listed)

    # --- packing --------------------------------------------------------------------------------------------------------

    def _fields(self) -> list[tuple[int, int, int]] | None:
        """Return (resource, unit, shift) of each field, with the scarcest resource topmost. None if they take too many bits."""
        node, fields, shift = self.node, [], 0
        for r in sorted(np.flatnonzero(self.requested).tolist(), key=lambda r: (-int(node.spare[r]) / max(1, int(node.room[r])), r)):
            unit = gcd(*node.demand[self.classes, r].tolist())
            fields.append((r, unit, shift))
            shift += (int(node.room[r]) // unit).bit_length() + 1
        return fields if shift <= _MAX_FIELD_BITS else None

    def _packed(self, amounts: Ints) -> Ints:
        """Pack int64[..., R] into int64[...]: whole units of each resource in its field."""
        found = np.zeros(amounts.shape[:-1], dtype=np.int64)
        for r, unit, shift in self.fields:
            found += (amounts[..., r] // unit) << shift
        return found

    def _guards(self) -> int:
        """Return the guard bits above the fields."""
        return sum(1 << (shift + (int(self.node.room[r]) // unit).bit_length()) for r, unit, shift in self.fields)

    # --- search ---------------------------------------------------------------------------------------------------------

    def _search(self, limit: int, *, keep: bool) -> tuple[Ints, Ints, _Half, _Half] | None:
        """Return the patterns as pairs of sets, one of each half of the classes.

        Args:
            limit: Maximum number of sets of one half.
            keep: Keep the pods of each set. If False, only the number of patterns is meaningful.

        Returns:
            The index of each pattern's set in the first and in the second half, and both halves.
        """
        if not self.fit:
            return None
        size = (self.node.demand[self.classes] / np.maximum(self.node.room, 1)).sum(axis=1)
        order = self.classes[np.argsort(-size, kind="stable")]
        first = self._half(order[::2].tolist(), limit, keep=keep)
        second = None if first is None else self._half(order[1::2].tolist(), limit, keep=keep)
        if first is None or second is None:
            return None
        load = self._packed(self.node.room) - second.residual
        if not keep:  # sorting values is much faster than sorting indices
            first.residual, load = np.sort(first.residual), np.sort(load)
            pairs = self._meet(first.residual, load)
            return None if pairs is None else (*pairs, first, second)
        by_residual, by_load = np.argsort(first.residual, kind="stable"), np.argsort(load, kind="stable")
        pairs = self._meet(first.residual[by_residual], load[by_load])
        return None if pairs is None else (by_residual[pairs[0]], by_load[pairs[1]], first, second)

    def _half(self, classes: list[int], limit: int, *, keep: bool) -> _Half | None:
        """Return all sets of pods of these classes that fit the room. None if there are more than ``limit``.

        Args:
            classes: Classes of one half.
            limit: Maximum number of sets.
            keep: Store how each set arose, so that :meth:`_Half.pods` can list its pods. If False, store only residual capacities.
        """
        guards = self._guards()
        half = _Half(self._packed(self.node.room)[None])
        for k in classes:
            demand = int(self._packed(self.node.demand[k]))
            residual, source = half.residual, np.arange(len(half.residual) if keep else 0)
            residuals, pods, sources = [residual], [np.zeros_like(source)], [source]
            for more in range(1, int(self.node.count[k]) + 1):
                residual = (residual | guards) - demand
                fits = residual & guards == guards
                residual = residual[fits] ^ guards
                if not len(residual):
                    break
                residuals.append(residual)
                if keep:
                    source = source[fits]
                    pods.append(np.full(len(source), more, dtype=np.int64))
                    sources.append(source)
            if sum(map(len, residuals)) > limit or self.stopped():
                return None
            half.residual = np.concatenate(residuals)
            if keep:
                half.steps.append((k, np.concatenate(pods), np.concatenate(sources)))
        return half

    def _levels(self, pods: int, limit: int) -> list[_Level] | None:
        """Return the sets that fit by size: level k has all sets of k pods, from 0 to ``pods``.

        Return None if a level has more than ``limit`` sets.
        """
        none, size = np.zeros(1, dtype=np.int64), len(self.classes)
        found = [_Level(none, none, none.astype(np.int32), np.ones(size + 1, dtype=np.int64))]
        for _ in range(pods):
            parts, sets = [], 0
            for place in range(size):
                parts.append(self._with_one_more(found[-1], place))
                sets += len(parts[-1][0])
                if sets > limit or self.stopped():
                    return None
            ends = np.cumsum([0, *(len(load) for load, _, _ in parts)])
            loads, runs, sources = zip(*parts, strict=True)
            found.append(_Level(np.concatenate(loads), np.concatenate(runs), np.concatenate(sources), ends))
        return found

    def _with_one_more(self, level: _Level, place: int) -> tuple[Ints, Ints, NDArray[np.int32]]:
        """Return the sets that arise when one pod of a class is added to the sets of a level, without those that do not fit.

        A set is extended only if its last class is this one or an earlier one, so that every set arises once.

        Args:
            level: All sets with one pod less.
            place: Position of the class in ``classes``.

        Returns:
            ``load``, ``run`` and ``before`` of the new sets; see :class:`_Level`.
        """
        first, end = level.ends[place : place + 2].tolist()
        k, guards = int(self.classes[place]), self._guards()
        again = first + np.flatnonzero(level.run[first:end] < self.node.count[k])
        load = np.concatenate([level.load[:first], level.load[again]]) + int(self._packed(self.node.demand[k]))
        run = np.concatenate([np.ones(first, dtype=np.int64), level.run[again] + 1])
        source = np.concatenate([np.arange(first, dtype=np.int32), again.astype(np.int32)])
        fits = ((int(self._packed(self.node.room)) | guards) - load) & guards == guards
        return (load, run, source) if fits.all() else (load[fits], run[fits], source[fits])

    def _of_size(self, levels: list[_Level], loads: list[Ints], size: int) -> Ints | None:
        """Return all patterns of exactly ``size`` pods, int64[P, K]. None if too many pairs match.

        Each pattern is split into the half that takes less of the topmost resource and the other half.

        Args:
            levels: The sets by number of pods; see :meth:`_levels`.
            loads: The sorted loads of each level.
        """
        less, more = -(-size // 2), size // 2
        top, unit, shift = self.fields[-1]
        room, spare = int(self.node.room[top]) // unit, int(self.node.spare[top]) // unit
        all_, light = int(self._packed(self.node.room)), np.searchsorted(loads[less], (less * room // max(1, size) + 1) << shift)
        heavy = np.searchsorted(loads[more], -(-more * (room - spare) // max(1, size)) << shift)
        residual, load = all_ - loads[less][:light][::-1], loads[more][heavy:]
        pairs = self._meet(residual, load)
        if pairs is None:
            return None
        one, other = all_ - residual[pairs[0]], load[pairs[1]]
        here, there = self._of_loads(levels[: less + 1], one), self._of_loads(levels[: more + 1], other)
        tables = [np.zeros((0, len(self.node.count)), dtype=np.int64)]
        tables += [here[a][:, None] + there[b] for a, b in set(zip(one.tolist(), other.tolist(), strict=True))]
        chosen = np.concatenate([each.reshape(-1, len(self.node.count)) for each in tables])
        return np.unique(chosen[(chosen <= self.node.count).all(axis=1)], axis=0)

    def _of_loads(self, levels: list[_Level], loads: Ints) -> dict[int, Ints]:
        """Return, for each of the given loads, the pods int64[S, K] of all sets of the last level that have this load.

        Args:
            levels: All levels up to the one whose sets are wanted.
            loads: Packed loads, int64[L].
        """
        wanted, all_ = np.unique(loads), levels[-1].load
        if not len(wanted):
            return {}
        sets = np.flatnonzero(wanted[np.minimum(np.searchsorted(wanted, all_), len(wanted) - 1)] == all_)
        pods, rows, chosen = np.zeros((len(sets), len(self.node.count)), dtype=np.int64), np.arange(len(sets)), sets
        for level in levels[:0:-1]:
            last = np.searchsorted(level.ends, chosen, "right") - 1
            np.add.at(pods, (rows, self.classes[last]), 1)
            chosen = level.before[chosen].astype(np.int64)
        return {value: pods[all_[sets] == value] for value in wanted.tolist()}

    def _meet(self, residual: Ints, load: Ints) -> tuple[Ints, Ints] | None:
        """Return the index pairs of sets of both halves that waste no more than allowed. None if too many pairs match.

        Args:
            residual: Residual capacity of the sets of one half, sorted.
            load: Loads of the sets of the other half, sorted.
        """
        wasted = ~self.requested & (self.node.room > self.node.spare)  # no class here uses it
        if wasted.any() or not self.fields:
            one = np.zeros(0 if wasted.any() else 1, dtype=np.int64)
            return one, one
        top, unit, shift = self.fields[-1]
        spare = int(self.node.spare[top]) // unit
        low = np.searchsorted(load, np.maximum((residual >> shift) - spare, 0) << shift, "left")
        high = np.searchsorted(load, ((residual >> shift) + 1) << shift, "left")
        pairs = np.maximum(high - low, 0)
        if int(pairs.sum()) > PARAMETERS.max_pairs:
            return None
        i = np.repeat(np.arange(len(residual)), pairs)
        j = np.arange(len(i)) - np.repeat(np.cumsum(pairs) - pairs, pairs) + np.repeat(low, pairs)
        good = np.ones(len(i), dtype=bool)
        for r, unit, shift in self.fields:
            mask = (1 << (int(self.node.room[r]) // unit).bit_length()) - 1
            unused = ((residual[i] >> shift) & mask) - ((load[j] >> shift) & mask)
            good &= (unused >= 0) & (unused <= int(self.node.spare[r]) // unit)
        return i[good], j[good]
