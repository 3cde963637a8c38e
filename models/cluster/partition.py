"""Partitions of nodes or pod classes into classes of equal ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Partition:
    """Equivalence classes of N things.

    Attributes:
        of: Class of each thing, int64[N].
        firsts: First thing of each class, int64[C].
    """

    of: Ints
    firsts: Ints

    def __len__(self) -> int:
        """Return the number of classes."""
        return len(self.firsts)

    @cached_property
    def members(self) -> list[Ints]:
        """Things of each class, in ascending order."""
        order = np.argsort(self.of, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(self.of[order])) + 1) if len(order) else []


def equivalence(*columns: NDArray[Any]) -> Partition:
    """Return the classes of things that are equal in all columns, numbered in lexicographic order of the values.

    Args:
        columns: Integers or booleans, [N] or [N, K]: one row for each thing.
    """
    size = len(columns[0])
    table = np.ascontiguousarray(np.concatenate([_sortable(column if column.ndim == 2 else column[:, None]) for column in columns], axis=1))
    if not table.size:  # nothing to compare
        return Partition(np.zeros(size, dtype=np.int64), np.arange(min(size, 1), dtype=np.int64))
    rows = table.view(np.dtype((np.void, table.shape[1]))).reshape(-1)
    _, firsts, of = np.unique(rows, return_index=True, return_inverse=True)
    return Partition(of.reshape(-1).astype(np.int64), firsts.astype(np.int64))


def _sortable(rows: NDArray[Any]) -> NDArray[np.uint8]:
    """Return bytes [N, B] that compare, byte by byte, as the rows of values do."""
    if rows.dtype == np.bool_:
        return np.packbits(rows, axis=1)
    flipped = (rows.astype(np.int64) ^ np.iinfo(np.int64).min).astype(">i8")
    return np.ascontiguousarray(flipped).view(np.uint8).reshape(len(rows), 8 * rows.shape[1])
