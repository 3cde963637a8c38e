"""What differs between expressions by version and gates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dialect:
    """``shares``: ``device.allowMultipleAllocations`` exists. ``includes``: the function of this name exists. ``list_attributes``:
    attributes may be lists."""

    shares: bool
    includes: bool
    list_attributes: bool
