"""Random tables of devices and claims, small enough that brute force can say whether some allocation serves all pods."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from kubestow.models.devices.demand import DemandedClaim, DemandedConstraint, DemandedRequest
from kubestow.models.devices.inventory import Attribute, Capacity, DeviceBooks, DeviceKind, Inventory, InventoryDevice, Site, View
from kubestow.models.devices.selecting import DeviceSelecting
from kubestow.models.devices.table import DeviceTable
from kubestow.models.kube import device_objects
from kubestow.models.kube.feature_gates import DEFAULT

SELECTORS = ("s0", "s1", "s2", "s3")
ATTRIBUTES = ("d/a", "d/b")


@dataclass
class Instance:
    """``claims``: per class. ``table``: devices of ``nodes`` nodes."""

    nodes: int
    table: DeviceTable
    claims: list[tuple[DemandedClaim, ...]]


def instance(seed: int, *, nodes: int = 2, classes: int = 3) -> Instance:
    rng = random.Random(seed)
    inventory = Inventory()
    hits = {}
    for k in range(rng.randint(1, 4)):
        inventory.kinds.append(_kind(rng, k))
        for selector in SELECTORS:
            hits[selector, k] = rng.random() < 0.75
    lists: list[list[int]] = [[] for _ in range(nodes)]
    for n in range(nodes):
        counters = _counters(rng, inventory, 0.3)
        for _ in range(rng.choice((0, 1, 2, 3, 4))):
            lists[n].append(_device(rng, inventory, f"n{n}", counters, node=True, selector=None))
    if rng.random() < 0.5:
        counters = _counters(rng, inventory, 0.2)
        mask = np.array([rng.random() < 0.7 for _ in range(nodes)])
        inventory.selectors.append(mask)
        for _ in range(rng.choice((1, 2))):
            everywhere = rng.random() < 0.4
            device = _device(rng, inventory, "network", counters, node=rng.random() < 0.2, selector=None if everywhere else 0)
            for n in range(nodes):
                if everywhere or mask[n]:
                    lists[n].append(device)
    for n in range(nodes):
        broken = "broken" if rng.random() < 0.03 else None
        ids = np.array(lists[n], dtype=np.int32)
        inventory.views.append(View(ids, broken=broken))
        inventory.sites.append(Site((n,), ids))
    inventory.site_of = np.arange(nodes, dtype=np.int32)
    _book(rng, inventory)
    table = DeviceTable(inventory, _Selecting(inventory.kinds, hits))
    shared = _claim(rng, key="default/shared")
    return Instance(nodes, table, [_demand(rng, shared) for _ in range(classes)])


class _Selecting(DeviceSelecting):
    """Selectors are names; ``hits``: which of them hold for which kind."""

    def __init__(self, kinds: list[DeviceKind], hits: dict[tuple[str, int], bool]) -> None:
        super().__init__(kinds, DEFAULT)
        self._hits = hits

    def __call__(self, expressions: tuple[str, ...], kind: int) -> bool:
        return all(self._hits[selector, kind] for selector in expressions)


def _kind(rng: random.Random, k: int) -> DeviceKind:
    attributes: dict[str, Attribute] = {}
    for name in ATTRIBUTES:
        if rng.random() < 0.85:
            values = rng.sample((0, 1, 2), 1 if rng.random() < 0.9 else 2)
            attributes[name] = ("int", tuple(values))
    capacity = {}
    if rng.random() < 0.5:
        capacity["memory"] = Capacity(Fraction(rng.choice((4, 5, 8))), default=rng.choice((None, Fraction(2))))
    taints = (("t", "", "NoSchedule"),) if rng.random() < 0.15 else ()
    return DeviceKind(k, "d", device_objects.Device("x"), attributes, capacity, taints, rng.random() < 0.3, rng.random() < 0.97)


def _counters(rng: random.Random, inventory: Inventory, chance: float) -> list[int]:
    if rng.random() > chance:
        return []
    first = len(inventory.counters)
    for _ in range(rng.choice((1, 2))):
        inventory.counters.append(Fraction(rng.choice((3, 4, 6)), rng.choice((1, 1, 2))))
    return list(range(first, len(inventory.counters)))


def _device(rng: random.Random, inventory: Inventory, pool: str, counters: list[int], *, node: bool, selector: int | None) -> int:
    i = len(inventory.devices)
    consumed = tuple((c, Fraction(rng.choice((1, 2, 3)), rng.choice((1, 1, 2)))) for c in counters if rng.random() < 0.8)
    inventory.devices.append(
        InventoryDevice(i, i, rng.randrange(len(inventory.kinds)), "d", pool, f"x{i}", consumed, node, None if node else selector)
    )
    if consumed:
        inventory.consumption[i] = consumed
    return i


def _book(rng: random.Random, inventory: Inventory) -> None:
    size = len(inventory.devices)
    books = inventory.books = DeviceBooks(np.zeros(size, dtype=bool), np.zeros(size, dtype=np.int32), list(inventory.counters))
    for device in inventory.devices:
        if rng.random() < 0.15:
            if inventory.kinds[device.kind].shared:
                books.shares[device.unit] = 1
                books.consumed[device.unit, "memory"] = Fraction(2)
            else:
                books.in_use[device.unit] = True
            for counter, amount in device.counters:
                books.left[counter] -= amount


def _request(rng: random.Random, name: str) -> DemandedRequest:
    return DemandedRequest(
        name, "class", None if rng.random() < 0.07 else rng.choice((1, 1, 1, 2)),
        tuple(rng.sample(SELECTORS, rng.choice((0, 0, 1)))),
        (("", "Exists", "", ""),) if rng.random() < 0.3 else (),
        (("memory", Fraction(rng.choice((1, 3, 4)))),) if rng.random() < 0.2 else (),
    )  # fmt: skip


def _claim(rng: random.Random, key: str | None = None) -> DemandedClaim:
    requests = []
    for i in range(rng.choice((1, 1, 2))):
        if rng.random() < 0.2:
            requests.append(tuple(_request(rng, f"r{i}/{j}") for j in range(2)))
        else:
            requests.append((_request(rng, f"r{i}"),))
    constraints = []
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        about = rng.choice(((), (), ("r0",), ("r1", "r0"), ("r0/1",)))
        constraints.append(DemandedConstraint(rng.choice(ATTRIBUTES), rng.random() < 0.4, about))
    return DemandedClaim(tuple(requests), tuple(constraints), key)


def _demand(rng: random.Random, shared: DemandedClaim) -> tuple[DemandedClaim, ...]:
    claims = [_claim(rng) for _ in range(rng.choice((1, 1, 2)))]
    if rng.random() < 0.3:
        claims[rng.randrange(len(claims))] = shared
    return tuple(claims)


# --- brute force --------------------------------------------------------------------------------------------------------------------


def can_serve(instance: Instance, pods: Sequence[tuple[int, int]]) -> bool:
    """Return whether some allocation serves these pods, (class, node) each; a shared claim has one allocation, made on the node of one of
    its pods."""
    own = [(claim, n) for g, n in pods for claim in instance.claims[g] if claim.key is None]
    users = [n for g, n in pods if any(claim.key for claim in instance.claims[g])]
    shared = next((claim for g, _ in pods for claim in instance.claims[g] if claim.key), None)
    if shared is None:
        return _allocate(instance, own, 0, instance.table.inventory.books.copy())
    for anchor in dict.fromkeys(users):
        for books, devices in _ways(instance, shared, anchor, instance.table.inventory.books.copy()):
            if all(_reaches(instance, devices, anchor, n) for n in users) and _allocate(instance, own, 0, books.copy()):
                return True
    return False


def _reaches(instance: Instance, devices: Sequence[int], anchor: int, n: int) -> bool:
    if n == anchor:
        return True
    inventory = instance.table.inventory
    chosen = [inventory.devices[i] for i in devices]
    return all(not d.node and (d.selector is None or bool(inventory.selectors[d.selector][n])) for d in chosen)


def _allocate(instance: Instance, claims: Sequence[tuple[DemandedClaim, int]], i: int, books: DeviceBooks) -> bool:
    if i == len(claims):
        return True
    claim, n = claims[i]
    return any(_allocate(instance, claims, i + 1, after.copy()) for after, _ in _ways(instance, claim, n, books))


def _ways(instance: Instance, claim: DemandedClaim, n: int, books: DeviceBooks) -> Iterator[tuple[DeviceBooks, list[int]]]:
    """Every way to allocate a claim: the books afterwards, the devices."""

    def visit(i: int, chosen: list[tuple[str, int]]) -> Iterator[tuple[DeviceBooks, list[int]]]:
        if i == len(claim.requests):
            yield books, [device for _, device in chosen]
            return
        for request in claim.requests[i]:
            for devices in _choices(instance, request, n):
                more = [*chosen, *((request.name, device) for device in devices)]
                if _constrained(instance, claim, more):
                    undo = _take(instance, request, devices, books)
                    if undo is not None:
                        yield from visit(i + 1, more)
                        _restore(books, undo)

    yield from visit(0, [])


def _choices(instance: Instance, request: DemandedRequest, n: int) -> Iterator[tuple[int, ...]]:
    inventory, site = instance.table.inventory, instance.table.inventory.site(n)
    matching = [i for i in site.visible.tolist() if instance.table.matches(request.selectors, inventory.devices[i].kind)]
    good = [i for i in matching if _good(request, inventory.kind(i))]
    if request.count is not None:
        yield from combinations(good, request.count)
        return
    # All matching devices that are large enough. Full shared devices are left out, which depends on the moment.
    large = [i for i in matching if _large(request, inventory.kind(i))]
    fixed = [i for i in large if not inventory.kind(i).shared]
    spare = [i for i in good if inventory.kind(i).shared]
    if set(fixed) <= set(good) and not any(inventory.views[v].broken for v in site.views):
        for k in range(len(spare) + 1):
            yield from ((*fixed, *more) for more in combinations(spare, k) if fixed or more)


def _large(request: DemandedRequest, kind: DeviceKind) -> bool:
    return all(name in kind.capacity and amount <= kind.capacity[name].value for name, amount in request.capacity)


def _good(request: DemandedRequest, kind: DeviceKind) -> bool:
    if kind.taints and not request.tolerations:
        return False
    return kind.usable and _large(request, kind)


def _take(instance: Instance, request: DemandedRequest, devices: Sequence[int], books: DeviceBooks) -> DeviceBooks | None:
    """Book devices; the books before, or None where there is no room (and nothing is booked)."""
    before = books.copy()
    inventory = instance.table.inventory
    for i in devices:
        device, kind = inventory.devices[i], inventory.kind(i)
        fits = not books.in_use[device.unit]
        if kind.shared:
            first = not books.shares[device.unit]
            books.shares[device.unit] += 1
            for name, capacity in kind.capacity.items():
                requested = dict(request.capacity).get(name)
                amount = requested if requested is not None else capacity.default if capacity.default is not None else capacity.value
                books.consumed[device.unit, name] = books.consumed.get((device.unit, name), Fraction(0)) + amount
                fits &= books.consumed[device.unit, name] <= capacity.value
        else:
            first = True
            books.in_use[device.unit] = True
        for counter, amount in device.counters if first else ():
            books.left[counter] -= amount
            fits &= amount == 0 or books.left[counter] >= 0
        if not fits:
            _restore(books, before)
            return None
    return before


def _restore(books: DeviceBooks, before: DeviceBooks) -> None:
    books.in_use, books.consumed, books.shares, books.left = before.in_use, before.consumed, before.shares, before.left


def _constrained(instance: Instance, claim: DemandedClaim, chosen: Sequence[tuple[str, int]]) -> bool:
    inventory = instance.table.inventory
    for constraint in claim.constraints:
        here = [inventory.kind(i).attributes.get(constraint.attribute) for name, i in chosen if constraint.about(name)]
        sets = [{(a[0], v) for v in a[1]} for a in here if a is not None]
        if len(sets) < len(here):
            return False
        if not constraint.distinct and sets and not set.intersection(*sets):
            return False
        if constraint.distinct and any(a & b for a, b in combinations(sets, 2)):
            return False
    return True
