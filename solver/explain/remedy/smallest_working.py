"""The least number that works, from yes-or-no questions that are dear."""

from __future__ import annotations

from collections.abc import Callable


def least(asked: Callable[[int], bool | None], low: int, high: int, start: int | None = None) -> tuple[int, bool] | None:
    """Return the least k in [low, high] of which ``asked`` is true, and whether k - 1 was refuted (or k is ``low``): from ``start``
    (``low``) in doubling steps to both sides, then by bisection.

    None: no number that was asked worked. ``asked`` answers None where it does not know, which counts as no, but proves nothing. That a
    number works is taken to mean that greater ones do, in choosing what to ask; k itself and k - 1 are always asked.
    """
    known: dict[int, bool | None] = {}

    def works(k: int) -> bool:
        if k not in known:
            known[k] = asked(k)
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
