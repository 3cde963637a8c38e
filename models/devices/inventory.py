"""What there is: the devices of complete pools, which nodes each serves, and what of them is allocated."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]


#: (type, value) of an attribute: "int", "bool", "string" or "version"; versions compare as text.
Attribute = tuple[str, int | bool | str]


@dataclass(frozen=True)
class Capacity:
    """One entry of a device's capacity, in the resource's own units. ``default``, ``least``, ``most``, ``step``, ``values``: the request
    policy, None or empty where it has none."""

    value: Fraction
    default: Fraction | None = None
    least: Fraction | None = None
    most: Fraction | None = None
    step: Fraction | None = None
    values: tuple[Fraction, ...] = ()


@dataclass(frozen=True, eq=False)
class Device:
    """One device of a pool. ``id``: its position in ``Inventory.devices``. ``attributes``, ``capacity``: by full name, ``domain/name``.
    ``counters``: (id of the counter in ``Inventory.counters``, amount). ``shared``: allowMultipleAllocations."""

    id: int
    driver: str
    pool: str
    name: str
    attributes: dict[str, Attribute]
    capacity: dict[str, Capacity]
    counters: tuple[tuple[int, Fraction], ...] = ()
    taints: tuple[tuple[str, str, str], ...] = ()  # (key, value, effect), those that block
    shared: bool = False
    binding_conditions: bool = False


@dataclass
class Inventory:
    """Every device of the snapshot that some node can use.

    ``visible``: per node the ids of the devices that its pods can get, in the order in which the allocator looks at them (int32).
    ``broken``: per node why a request for all devices is an error there (an incomplete or invalid pool), None if it is not.
    ``counters``: total less what allocated devices consume. ``in_use``: ids of devices that are allocated as a whole.
    ``consumed``: (id, name of the capacity) -> what shares take of it. ``shares``: ids of shared devices with at least one share.
    """

    devices: list[Device] = field(default_factory=list)
    visible: list[Ids] = field(default_factory=list)
    broken: list[str | None] = field(default_factory=list)
    counters: list[Fraction] = field(default_factory=list)
    in_use: set[int] = field(default_factory=set)
    consumed: dict[tuple[int, str], Fraction] = field(default_factory=dict)
    shares: set[int] = field(default_factory=set)
