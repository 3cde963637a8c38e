"""Nothing passes in silence: a case of every kind in the quick tier, more in the full one, ten thousand by name.

The long run: ``python -m tests.fuzz.loud --first 1000 --count 10000``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.loud import PATHS, judge
from tests.tiers import thinned


def _all_well(first: int, count: int, folder: Path) -> None:
    for seed in range(first, first + count):
        own = folder / str(seed)
        own.mkdir()
        assert not judge(seed, own), seed


def test_a_case_of_every_kind_is_heard(tmp_path: Path) -> None:
    _all_well(0, len(PATHS), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("first", thinned(range(100, 340, 40), 3))
def test_nothing_passes_in_silence(first: int, tmp_path: Path) -> None:
    _all_well(first, 40, tmp_path)
