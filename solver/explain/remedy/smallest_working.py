"""The smallest number that works, found with few expensive yes-or-no queries."""

from __future__ import annotations

from collections.abc import Callable


def least(query: Callable[[int], bool | None], low: int, high: int, start: int | None = None) -> tuple[int, bool] | None:
    """Return the least k in [low, high] for which ``query`` is true, and True if k - 1 was refuted or k is ``low``.

    Search from ``start`` (``low``) in doubling steps in both directions, then by bisection. The choice of
    queries assumes that if a number works, greater numbers do. k itself and k - 1 are always queried.

    Args:
        query: Returns None if unknown. That counts as no, but proves nothing.

    Returns:
        None if no queried number worked.
    """
    known: dict[int, bool | None] = {}

    def works(k: int) -> bool:
        if k not in known:
            known[k] = query(k)
        return known[k] is True

    k = low if start is None else min(high, max(low, start))
    step = 1
    if works(k):
        bottom = low
        while k > bottom:
            lower = max(bottom, k - step)
            if not works(lower):
                bottom = lower + 1
                break
            k, step = lower, 2 * step
    else:
        while True:
            if k >= high:
                return None
            bottom, k, step = k + 1, min(high, k + step), 2 * step
            if works(k):
                break
    while bottom < k:
        middle = (bottom + k) // 2
        if works(middle):
            k = middle
        else:
            bottom = middle + 1
    return k, k == low or known.get(k - 1) is False
