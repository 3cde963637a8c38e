"""Seeded draws of whole numbers, and the distributions of synthetic clusters.

Only the integer methods of ``random.Random`` are used, so the same seed gives the same draws on every platform.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

#: Distribution of replicas as (weight, minimum, maximum): mostly 2 to 10, rarely several hundred.
REPLICAS: Final = ((10, 1, 1), (56, 2, 10), (23, 11, 50), (8, 51, 150), (2, 151, 400), (1, 401, 1200))
#: Distribution of the main container's requests as (weight, mCPU, MiB), sorted by mCPU.
REQUESTS: Final = (
    (40, 100, 128), (20, 100, 256), (30, 250, 256), (24, 250, 512), (20, 500, 512), (24, 500, 1024), (10, 1000, 1024), (14, 1000, 2048),
    (6, 1000, 4096), (8, 2000, 4096), (4, 2000, 8192), (2, 4000, 8192), (2, 4000, 16384), (1, 8000, 32768),
)  # fmt: skip
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


def chance(rng: random.Random, percent: int) -> bool:
    """Return True with a probability of ``percent``."""
    return rng.randrange(100) < percent


def pick(rng: random.Random, weighted: Sequence[tuple[int, T]]) -> T:
    """Draw a value from pairs of (weight, value)."""
    left = rng.randrange(sum(weight for weight, _ in weighted))
    for weight, value in weighted:
        if left < weight:
            return value
        left -= weight
    raise AssertionError("weights changed during the draw")


def replicas(rng: random.Random, most: int) -> int:
    """Draw a heavy-tailed number of replicas from 1 to ``most``."""
    low, high = pick(rng, [(weight, (low, high)) for weight, low, high in REPLICAS if low <= most])
    return rng.randint(low, min(high, most))


def request(rng: random.Random, menu: Sequence[tuple[int, int, int]], most_cpu: int) -> tuple[int, int]:
    """Draw (mCPU, MiB) from ``menu``, sorted by mCPU, with at most ``most_cpu`` mCPU; the cheapest entry if all are larger."""
    affordable = [(weight, (cpu, memory)) for weight, cpu, memory in menu if cpu <= max(most_cpu, menu[0][1])]
    return pick(rng, affordable)


def letters(rng: random.Random, count: int) -> str:
    """Draw letters for a generated name."""
    return "".join(_LETTERS[rng.randrange(len(_LETTERS))] for _ in range(count))


def suffix(index: int) -> str:
    """Return the five letters at the end of a ReplicaSet pod's name, distinct for indices below 27^5."""
    mixed = index * 7_654_321 % len(_LETTERS) ** 5  # coprime to 27: a permutation
    text = ""
    for _ in range(5):
        mixed, digit = divmod(mixed, len(_LETTERS))
        text += _LETTERS[digit]
    return text


def uid(rng: random.Random) -> str:
    """Draw a UUID."""
    bits = f"{rng.getrandbits(128):032x}"
    return f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-a{bits[17:20]}-{bits[20:]}"
