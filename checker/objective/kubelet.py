"""The checker's own replay of a kubelet whose Topology Manager rejects pods.

Source: pkg/kubelet/cm: topologymanager (policy_restricted.go, policy_single_numa_node.go),
cpumanager/policy_static.go (generateCPUTopologyHints, updateCPUsToReuse), devicemanager
(generateDeviceTopologyHints, devicesToAllocate).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import nlargest

from kubestow.checker.objective.topology_manager import Amounts, Machine, ZoneRequest, is_ram
from kubestow.models.kube import quantity

_PerZone = Sequence[Mapping[str, int]]


def zones_due(machine: Machine, amounts: Mapping[str, int]) -> int:
    """Return the number of zones that a request is given.

    It is one, or under ``restricted`` the fewest zones that could hold the request if they were empty. It is 0 if
    all zones together could not.
    """
    if machine.policy != "restricted":
        return 1
    sizes = range(1, len(machine.zones) + 1)
    return next((size for size in sizes if _lowest(machine.total, amounts, size, len(machine.zones)) is not None), 0)


def _lowest(per_zone: _PerZone, wanted: Mapping[str, int], size: int, below: int, inside: int = 0) -> int | None:
    """Return the lowest set of zones, as a bitmask, that together have the wanted amounts, or None.

    Args:
        per_zone: Amounts per zone.
        wanted: Amounts wanted.
        size: Number of zones in the set.
        below: Only the first zones up to this index may be chosen.
        inside: Zones that the set must include.
    """
    if inside.bit_count() > size or inside >> below:
        return None
    if size == 0:
        return None if any(amount > 0 for amount in wanted.values()) else 0
    for name, amount in wanted.items():
        if sum(nlargest(size, (zone.get(name, 0) for zone in per_zone[:below]))) < amount:
            return None
    for top in range(size - 1, below):
        remainder = {name: amount - per_zone[top].get(name, 0) for name, amount in wanted.items()}
        remaining = _lowest(per_zone, remainder, size - 1, top, inside & ~(1 << top))
        if remaining is not None:
            return remaining | 1 << top
    return None


class Kubelet:
    """The Topology Manager of one node whose policy rejects pods. Pods arrive in order and take the first zones that suffice.

    Resources of init containers are reused: later containers of the same pod are bound to their zones and take them first.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._left = [dict(zone) for zone in machine.available_by_zone]
        self._spare: list[Amounts] = []

    def admit(self, wanted: Sequence[ZoneRequest]) -> str | None:
        """Admit a pod. Return why it is rejected, in which case it holds nothing; None if it is admitted."""
        before = [dict(zone) for zone in self._left]
        self._spare = [{} for _ in self._left]
        for ask in wanted:
            why = self._place(ask)
            if why is not None:
                self._left = before
                return why
        for zone, spare in zip(self._left, self._spare, strict=True):  # init containers have ended
            for name, amount in spare.items():
                zone[name] += amount
        return None

    def _place(self, ask: ZoneRequest) -> str | None:
        """Allocate one request. Return why it is rejected, or None."""
        machine = self._machine
        who = f"container {ask.container}" if ask.container else "the pod"
        for name in sorted(ask.amounts):
            if not machine.lists(name) and not (name in machine.offered and _need_not_be_listed(name)):
                return f"{who} asks for {name}, which no NUMA zone lists"
        amounts = {name: amount for name, amount in ask.amounts.items() if machine.lists(name)}
        if not amounts:
            return None
        size = zones_due(machine, amounts)
        init_zones = sum(1 << place for place, spare in enumerate(self._spare) if any(spare.get(name) for name in amounts))
        open_to_it = [
            {name: zone.get(name, 0) + spare.get(name, 0) for name in amounts} for zone, spare in zip(self._left, self._spare, strict=True)
        ]
        chosen = _lowest(open_to_it, amounts, size, len(self._left), init_zones) if size else None
        if chosen is None:
            return f"{who} asks for {self._short(amounts, size, init_zones)} ({machine.policy})"
        for name, amount in amounts.items():
            if ask.stays or not is_ram(name):
                self._take(chosen, name, amount, stays=ask.stays)
        return None

    def _short(self, amounts: Mapping[str, int], size: int, init_zones: int) -> str:
        """Describe a request that does not fit."""
        text = ", ".join(f"{name} {quantity.format_cpu(n) if name == 'cpu' else n}" for name, n in sorted(amounts.items()))
        room = f"no {size} NUMA zones have" if size > 1 else "no NUMA zone has"
        with_init = f" with {self._machine.show(init_zones)}, where its init containers were" if init_zones else ""
        return f"{text}: {room if size else 'all NUMA zones together lack'} that much{with_init}"

    def _take(self, chosen: int, name: str, amount: int, *, stays: bool) -> None:
        """Take an amount from the chosen zones, lowest first.

        CPUs are taken zone by zone, reusable ones first. Of devices, all reusable ones are taken first.
        """
        zones = [place for place in range(len(self._left)) if chosen >> place & 1]
        stores = [(place, store) for place in zones for store in (self._spare, self._left)]
        if name != "cpu":
            stores.sort(key=lambda each: each[1] is self._left)  # stable
        used: list[tuple[int, int]] = []
        for place, store in stores:
            part = min(amount, store[place].get(name, 0))
            if part:
                store[place][name] -= part
                used.append((place, part))
                amount -= part
        for place, part in used if not stays else ():
            self._spare[place][name] = self._spare[place].get(name, 0) + part


def _need_not_be_listed(name: str) -> bool:
    extended = "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")
    return extended or name in ("ephemeral-storage", "storage")
