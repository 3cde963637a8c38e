"""Python's cycle collector, set aside where millions of objects without cycles are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_gc() -> Iterator[None]:
    """Keep the collector off: it would walk all that is made, and all that was there before, for nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def set_aside() -> Iterator[None]:
    """Keep the collector from walking what is there now, and is not changed in here: a snapshot and what was compiled of it. A caller who
    has set something aside itself finds that as it was: then nothing is added to it."""
    own = gc.get_freeze_count() == 0
    if own:
        gc.freeze()
    try:
        yield
    finally:
        if own:
            gc.unfreeze()
