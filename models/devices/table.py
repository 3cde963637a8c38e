"""What a compiled instance knows of devices: the inventory, and what claims and extended resources allow per node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from models.devices.demand import Claim, Demand, Extended
from models.devices.inventory import Inventory, Pick
from models.kube.selectors import Bools


@dataclass
class DeviceTable:
    """``allowed``: ``namespace/name`` of allocated claims that pods name -> bool[N], the nodes that they allow. ``provided``: extended
    resource that a DeviceClass backs -> bool[N], nodes where devices must provide it. ``listed``: other extended resources -> bool[N],
    nodes whose allocatable lists them. ``names``: pod (index into ``snapshot.pods``) -> per claim of its demand how documents call it.
    ``held``: running pod that may be moved -> the devices that it has, by position of the claim. ``matches``: whether all selectors of a
    request hold for devices of a kind, remembered; raises CelError."""

    inventory: Inventory
    matches: Callable[[tuple[str, ...], int], bool]
    allowed: dict[str, Bools] = field(default_factory=dict)
    provided: dict[str, Bools] = field(default_factory=dict)
    listed: dict[str, Bools] = field(default_factory=dict)
    names: dict[int, tuple[str, ...]] = field(default_factory=dict)
    held: dict[int, tuple[Pick, ...]] = field(default_factory=dict)

    def variants(self, demand: Demand) -> list[tuple[Bools, tuple[Claim, ...]]]:
        """Return what the pods ask the allocator for, by nodes that are asked the same: bool[N] (disjoint, together all nodes), claims."""
        raise NotImplementedError


def claim_of(extended: tuple[Extended, ...]) -> Claim:
    """Return the claim that extended resources make of their requests, sorted by name."""
    requests = sorted((request for each in extended for request in each.requests), key=lambda request: request.name)
    return Claim(tuple((request,) for request in requests))
