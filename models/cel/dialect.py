"""The differences between expressions of different versions and feature gates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dialect:
    """A dialect of device selectors.

    Attributes:
        shares: True if ``device.allowMultipleAllocations`` exists.
        includes: True if the function ``includes`` exists.
        list_attributes: True if attributes may be lists.
    """

    shares: bool
    includes: bool
    list_attributes: bool
