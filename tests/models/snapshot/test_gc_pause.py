"""The collector is as it was when what set it aside is over."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from kubestow.models.snapshot.gc_pause import set_aside
from kubestow.models.snapshot.snapshot import InputError


@pytest.fixture(autouse=True)
def nothing_is_set_aside() -> Iterator[None]:
    """Take back what tests/conftest.py sets aside."""
    gc.unfreeze()
    yield
    gc.freeze()


def test_what_was_there_is_not_walked_inside_and_is_again_afterwards() -> None:
    with set_aside():
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0


def test_an_error_inside_changes_nothing_of_that() -> None:
    with pytest.raises(InputError), set_aside():
        raise InputError([])
    assert gc.get_freeze_count() == 0


def test_what_a_caller_has_set_aside_stays_so() -> None:
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        with set_aside():
            pass
        assert gc.get_freeze_count() == before > 0
    finally:
        gc.unfreeze()
