"""Suspension of Python's cycle collector while millions of objects without cycles are created."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_gc() -> Iterator[None]:
    """Disable the garbage collector in this block. It would traverse all old and new objects in vain."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def set_aside() -> Iterator[None]:
    """Exclude the existing objects, a snapshot and its compilation, from the collector's traversals.

    They must not change inside the block. If the caller has frozen objects itself, nothing changes.
    """
    own = gc.get_freeze_count() == 0
    if own:
        gc.freeze()
    try:
        yield
    finally:
        if own:
            gc.unfreeze()
