"""Nodes in the order of what they have left, which changes for a few of them at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.cluster.cluster import Ints
from models.kube.selectors import Bools

#: With more changes than one in so many nodes, all are sorted again.
SHARE = 16


class NodeOrder:
    """Nodes by a key, float64[N], those of equal keys by their number. ``keys`` is read as it is when it is asked: whoever changes it says
    for which nodes. ``descending``: the largest first."""

    def __init__(self, keys: NDArray[np.float64], *, descending: bool) -> None:
        self._keys, self._sign = keys, -1.0 if descending else 1.0
        self._order: Ints = np.zeros(0, dtype=np.int64)
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
        keys = self._sign * self._keys
        if self._many * SHARE >= len(keys):
            self._order = np.argsort(keys, kind="stable")
        else:
            self._order = self._merged(keys, np.unique(np.concatenate(self._changed)))
        self._changed.clear()
        self._many = 0

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
