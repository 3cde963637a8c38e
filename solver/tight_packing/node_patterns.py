"""Sets of pods that fit one node and leave little of it unused, listed by meeting in the middle.

The classes are cut in two halves; or, where only patterns of few pods are asked for, the pods of a pattern. Every set of pods of a half
that fits is one integer: what the node has left of each resource in a field of its own, with a bit above it that a pod too large borrows.
One list is sorted and searched for what the sets of the other lack.

Source: Horowitz and Sahni, doi:10.1145/321812.321823.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import gcd

import numpy as np
from numpy.typing import NDArray

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools

#: Bits of an integer that fields may take.
_BITS = 62


@dataclass(frozen=True)
class PatternParameters:
    """How much is listed.

    Attributes:
        states: Sets of pods of half of the classes at most, ...
        patterns_states: ... and at most where the patterns themselves are wanted, in any time, ...
        most_states: ... however long there is, ...
        states_per_second: ... and for each second.
        pairs: Pairs of such sets whose first resource is right, at most.
        few_states: Sets of half as many pods as patterns of few pods may have, for each second, ...
        most_few_states: ... and at most.
    """

    states: int = 4_000_000
    patterns_states: int = 30_000
    most_states: int = 400_000
    states_per_second: int = 150_000
    pairs: int = 2_000_000
    few_states: int = 4_000_000
    most_few_states: int = 6_000_000


PARAMETERS = PatternParameters()


@dataclass
class NodeRoom:
    """A node and what may be on it. Shapes: K classes, R resources.

    Attributes:
        room: int64[R].
        demand: int64[K, R].
        count: int64[K], pods of each class at most.
        spare: int64[R], what may be left unused of each resource at most.
    """

    room: Ints
    demand: Ints
    count: Ints
    spare: Ints


@dataclass
class _Half:
    """``left``: int64[S], what each set leaves, packed. ``steps``: per class its index, the pods of it (int64[S']) and the set before it
    (int64[S']) of each set so far."""

    left: Ints
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
    """Every set of so many pods that fits, ordered by the last class in it. ``load``: int64[S], packed; ``run``: int64[S], pods of the last
    class; ``before``: int32[S], the set without its last pod; ``ends``: int64[K' + 1], the sets whose last class is one before each."""

    load: Ints
    run: Ints
    before: NDArray[np.int32]
    ends: Ints


class NodePatterns:
    """The patterns of a node. ``None`` from a method: there are too many sets to list, or ``stopped`` said so."""

    def __init__(self, node: NodeRoom, stopped: Callable[[], bool] = lambda: False) -> None:
        self.node, self.stopped = node, stopped
        self.classes = np.flatnonzero((node.count > 0) & (node.demand <= node.room).all(axis=1))
        self.asked: Bools = np.asarray(node.demand[self.classes].any(axis=0))
        fields = self._fields()
        self.fields, self.fit = fields or [], fields is not None

    def exist(self) -> bool | None:
        """Return whether there is any pattern."""
        found = self._search(PARAMETERS.states, keep=False)
        return None if found is None else len(found[0]) > 0

    def all(self, seconds: float, listed: int) -> Ints | None:
        """Return int64[P, K], every pattern, if they are at most ``listed``, and a matter of some part of so many seconds."""
        most = max(PARAMETERS.patterns_states, int(min(PARAMETERS.most_states, PARAMETERS.states_per_second * seconds)))
        found = self._search(most, keep=True)
        if found is None or len(found[0]) > listed:
            return None
        size = len(self.node.count)
        return np.asarray(found[2].pods(found[0], size) + found[3].pods(found[1], size))

    def of_few_pods(self, pods: int, seconds: float) -> Ints | None:
        """Return int64[P, K], every pattern of at most so many pods, if to list them is a matter of some part of so many seconds."""
        if not self.fit or not self.fields:
            return None
        levels = self._levels(-(-pods // 2), min(PARAMETERS.most_few_states, int(PARAMETERS.few_states * seconds)))
        if levels is None:
            return None
        loads = [np.sort(level.load) for level in levels]  # numbers are sorted much faster than indices
        found = [np.zeros((0, len(self.node.count)), dtype=np.int64)]
        for size in range(pods + 1):
            patterns = self._of_size(levels, loads, size)
            if patterns is None:
                return None
            found.append(patterns)
        return np.concatenate(found)

    # --- packing --------------------------------------------------------------------------------------------------------

    def _fields(self) -> list[tuple[int, int, int]] | None:
        """(resource, unit, shift) of the fields, the resource with least to spare topmost; None where they take too many bits."""
        node, found, shift = self.node, [], 0
        for r in sorted(np.flatnonzero(self.asked).tolist(), key=lambda r: (-int(node.spare[r]) / max(1, int(node.room[r])), r)):
            unit = gcd(*node.demand[self.classes, r].tolist())
            found.append((r, unit, shift))
            shift += (int(node.room[r]) // unit).bit_length() + 1
        return found if shift <= _BITS else None

    def _packed(self, amounts: Ints) -> Ints:
        """int64[...] of int64[..., R]: whole units of each resource in its field."""
        found = np.zeros(amounts.shape[:-1], dtype=np.int64)
        for r, unit, shift in self.fields:
            found += (amounts[..., r] // unit) << shift
        return found

    def _guards(self) -> int:
        """The bits above the fields."""
        return sum(1 << (shift + (int(self.node.room[r]) // unit).bit_length()) for r, unit, shift in self.fields)

    # --- search ---------------------------------------------------------------------------------------------------------

    def _search(self, most: int, *, keep: bool) -> tuple[Ints, Ints, _Half, _Half] | None:
        """The pairs of sets that are patterns, by index, and the two lists of sets."""
        if not self.fit:
            return None
        size = (self.node.demand[self.classes] / np.maximum(self.node.room, 1)).sum(axis=1)
        order = self.classes[np.argsort(-size, kind="stable")]
        first = self._half(order[::2].tolist(), most, keep=keep)
        second = None if first is None else self._half(order[1::2].tolist(), most, keep=keep)
        if first is None or second is None:
            return None
        load = self._packed(self.node.room) - second.left
        if not keep:  # sorting numbers is much faster than sorting indices
            first.left, load = np.sort(first.left), np.sort(load)
            pairs = self._meet(first.left, load)
            return None if pairs is None else (*pairs, first, second)
        by_left, by_load = np.argsort(first.left, kind="stable"), np.argsort(load, kind="stable")
        pairs = self._meet(first.left[by_left], load[by_load])
        return None if pairs is None else (by_left[pairs[0]], by_load[pairs[1]], first, second)

    def _half(self, classes: list[int], most: int, *, keep: bool) -> _Half | None:
        """Every set of pods of these classes that fits into the room."""
        guards = self._guards()
        half = _Half(self._packed(self.node.room)[None])
        for k in classes:
            demand = int(self._packed(self.node.demand[k]))
            left, source = half.left, np.arange(len(half.left) if keep else 0)
            lefts, pods, sources = [left], [np.zeros_like(source)], [source]
            for more in range(1, int(self.node.count[k]) + 1):
                left = (left | guards) - demand
                fits = left & guards == guards
                left = left[fits] ^ guards
                if not len(left):
                    break
                lefts.append(left)
                if keep:
                    source = source[fits]
                    pods.append(np.full(len(source), more, dtype=np.int64))
                    sources.append(source)
            if sum(map(len, lefts)) > most or self.stopped():
                return None
            half.left = np.concatenate(lefts)
            if keep:
                half.steps.append((k, np.concatenate(pods), np.concatenate(sources)))
        return half

    def _levels(self, pods: int, most: int) -> list[_Level] | None:
        """Every set of no pods, of one, and so on; None where these are more than ``most``."""
        none, size = np.zeros(1, dtype=np.int64), len(self.classes)
        found = [_Level(none, none, none.astype(np.int32), np.ones(size + 1, dtype=np.int64))]
        for _ in range(pods):
            parts, sets = [], 0
            for place in range(size):
                parts.append(self._with_one_more(found[-1], place))
                sets += len(parts[-1][0])
                if sets > most or self.stopped():
                    return None
            ends = np.cumsum([0, *(len(load) for load, _, _ in parts)])
            loads, runs, sources = zip(*parts, strict=True)
            found.append(_Level(np.concatenate(loads), np.concatenate(runs), np.concatenate(sources), ends))
        return found

    def _with_one_more(self, level: _Level, place: int) -> tuple[Ints, Ints, NDArray[np.int32]]:
        """Load, run and source of the sets to which a pod of a class was added, of those that have no later class."""
        first, end = level.ends[place : place + 2].tolist()
        k, guards = int(self.classes[place]), self._guards()
        again = first + np.flatnonzero(level.run[first:end] < self.node.count[k])
        load = np.concatenate([level.load[:first], level.load[again]]) + int(self._packed(self.node.demand[k]))
        run = np.concatenate([np.ones(first, dtype=np.int64), level.run[again] + 1])
        source = np.concatenate([np.arange(first, dtype=np.int32), again.astype(np.int32)])
        fits = ((int(self._packed(self.node.room)) | guards) - load) & guards == guards
        return (load, run, source) if fits.all() else (load[fits], run[fits], source[fits])

    def _of_size(self, levels: list[_Level], loads: list[Ints], size: int) -> Ints | None:
        """int64[P, K], the patterns of so many pods: the half that takes less of the topmost resource, and the other one. ``loads``: those
        of each level, sorted."""
        less, more = -(-size // 2), size // 2
        top, unit, shift = self.fields[-1]
        room, spare = int(self.node.room[top]) // unit, int(self.node.spare[top]) // unit
        all_, light = int(self._packed(self.node.room)), np.searchsorted(loads[less], (less * room // max(1, size) + 1) << shift)
        heavy = np.searchsorted(loads[more], -(-more * (room - spare) // max(1, size)) << shift)
        left, load = all_ - loads[less][:light][::-1], loads[more][heavy:]
        pairs = self._meet(left, load)
        if pairs is None:
            return None
        one, other = all_ - left[pairs[0]], load[pairs[1]]
        here, there = self._of_loads(levels[: less + 1], one), self._of_loads(levels[: more + 1], other)
        found = [np.zeros((0, len(self.node.count)), dtype=np.int64)]
        found += [here[a][:, None] + there[b] for a, b in set(zip(one.tolist(), other.tolist(), strict=True))]
        chosen = np.concatenate([each.reshape(-1, len(self.node.count)) for each in found])
        return np.unique(chosen[(chosen <= self.node.count).all(axis=1)], axis=0)

    def _of_loads(self, levels: list[_Level], loads: Ints) -> dict[int, Ints]:
        """By load, int64[S, K]: pods of each class in the sets of the last level that have one of these loads."""
        wanted, all_ = np.unique(loads), levels[-1].load
        if not len(wanted):
            return {}
        sets = np.flatnonzero(wanted[np.minimum(np.searchsorted(wanted, all_), len(wanted) - 1)] == all_)
        found, rows, chosen = np.zeros((len(sets), len(self.node.count)), dtype=np.int64), np.arange(len(sets)), sets
        for level in levels[:0:-1]:
            last = np.searchsorted(level.ends, chosen, "right") - 1
            np.add.at(found, (rows, self.classes[last]), 1)
            chosen = level.before[chosen].astype(np.int64)
        return {value: found[all_[sets] == value] for value in wanted.tolist()}

    def _meet(self, left: Ints, load: Ints) -> tuple[Ints, Ints] | None:
        """The pairs of a set of the one half, by what it leaves, and one of the other, by its load, that leave no more than may be left;
        both sorted."""
        lost = ~self.asked & (self.node.room > self.node.spare)  # nobody here can use it
        if lost.any() or not self.fields:
            one = np.zeros(0 if lost.any() else 1, dtype=np.int64)
            return one, one
        top, unit, shift = self.fields[-1]
        spare = int(self.node.spare[top]) // unit
        low = np.searchsorted(load, np.maximum((left >> shift) - spare, 0) << shift, "left")
        high = np.searchsorted(load, ((left >> shift) + 1) << shift, "left")
        pairs = np.maximum(high - low, 0)
        if int(pairs.sum()) > PARAMETERS.pairs:
            return None
        i = np.repeat(np.arange(len(left)), pairs)
        j = np.arange(len(i)) - np.repeat(np.cumsum(pairs) - pairs, pairs) + np.repeat(low, pairs)
        good = np.ones(len(i), dtype=bool)
        for r, unit, shift in self.fields:
            mask = (1 << (int(self.node.room[r]) // unit).bit_length()) - 1
            rest = ((left[i] >> shift) & mask) - ((load[j] >> shift) & mask)
            good &= (rest >= 0) & (rest <= int(self.node.spare[r]) // unit)
        return i[good], j[good]
