"""Nodes in the order of what they have left, which changes for a few of them at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools

#: With more changes than one in so many nodes, all are sorted again, ...
SHARE = 16
#: ... and up to so many nodes move one by one: beyond, to merge them takes as long.
FEW = 8


class NodeOrder:
    """Nodes by a key, float64[N], those of equal keys by their number. ``keys`` is read as it is when it is asked: whoever changes it says
    for which nodes. ``descending``: the largest first."""

    def __init__(self, keys: NDArray[np.float64], *, descending: bool) -> None:
        self._keys, self._sign = keys, -1.0 if descending else 1.0
        #: As of the last time that it was asked: the nodes in order, their keys in that order, and by node.
        self._order: Ints = np.zeros(0, dtype=np.int64)
        self._ranked = self._known = np.zeros(0)
        self._changed: list[Ints] = []
        self._many = len(keys)  # nothing is sorted yet

    def changed(self, nodes: Ints) -> None:
        """Take note that the keys of these nodes are others now."""
        self._many += len(nodes)
        self._changed.append(nodes)

    def chosen(self, mask: Bools) -> Ints:
        """Return the nodes of bool[N], in order."""
        if self._many:
            self._sort()
        return self._order[mask.take(self._order)]

    def _sort(self) -> None:
        if self._many <= FEW and len(self._order):
            for nodes in self._changed:
                for n in nodes.tolist():
                    self._move(n, self._sign * float(self._keys[n]))
        else:
            self._known = self._sign * self._keys
            if self._many * SHARE >= len(self._known):
                self._order = np.argsort(self._known, kind="stable")
            else:
                self._order = self._merged(self._known, np.unique(np.concatenate(self._changed)))
            self._ranked = self._known.take(self._order)
        self._changed.clear()
        self._many = 0

    def _move(self, n: int, key: float) -> None:
        """Take a node out, and put it where it belongs with its new key."""
        order, ranked = self._order, self._ranked
        here, there = self._place(float(self._known[n]), n), self._place(key, n)
        if there > here:  # those between move one place down, as this one leaves
            there -= 1
            order[here:there], ranked[here:there] = order[here + 1 : there + 1], ranked[here + 1 : there + 1]
        else:
            order[there + 1 : here + 1], ranked[there + 1 : here + 1] = order[there:here], ranked[there:here]
        order[there], ranked[there], self._known[n] = n, key, key

    def _place(self, key: float, n: int) -> int:
        """How many nodes come before one with this key."""
        first = int(self._ranked.searchsorted(key))
        if first < len(self._ranked) and self._ranked[first] == key and self._order[first] < n:
            return first + int(self._order[first : int(self._ranked.searchsorted(key, side="right"))].searchsorted(n))
        return first

    def _merged(self, keys: NDArray[np.float64], moved: Ints) -> Ints:
        """The order with some nodes taken out and put where they belong."""
        stays = np.ones(len(keys), dtype=bool)
        stays[moved] = False
        rest = self._order[stays.take(self._order)]
        moved = moved[np.argsort(keys[moved], kind="stable")]
        ranked = keys.take(rest)
        first, last = (np.searchsorted(ranked, keys[moved], side=side).tolist() for side in ("left", "right"))
        parts, done = [], 0
        for i, n in enumerate(moved.tolist()):
            at = first[i] + int(np.searchsorted(rest[first[i] : last[i]], n)) if first[i] < last[i] else first[i]
            parts += [rest[done:at], moved[i : i + 1]]
            done = at
        return np.concatenate([*parts, rest[done:]])
