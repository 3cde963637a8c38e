"""kube-scheduler's search for the devices of one pod on one node: exhaustive, and the first solution counts.

Claims come in the order of the pod, requests in order, devices of a request by increasing position. An
alternative is tried only after all earlier ones have failed with everything that follows. An error ends the
search, even if other devices would do.

Branches that cannot change the first solution are cut. Among indistinguishable devices, the next one fails as
the previous one has. If no error is possible, a request with too few remaining devices fails at once.

Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go, as of
v1.36.2, without its faults #140436, #140438 and #140434. Its limit of 10 s per node is a limit of steps here
(:data:`MAX_STEPS`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Final

from kubestow.models.cel.selectors import CelError
from kubestow.models.devices.claims import MAX_CLAIM_DEVICES
from kubestow.models.devices.demand import DemandedClaim, DemandedConstraint, DemandedRequest
from kubestow.models.devices.inventory import Attribute, DeviceBooks, DeviceKind, Inventory, Pick, Site
from kubestow.models.devices.selecting import DeviceSelecting

#: Maximum number of candidates of a search; more is an error.
MAX_STEPS: Final = 1_000_000

_FAIL, _DONE, _TOO_MANY = 0, 1, 2
_Amounts = tuple[tuple[str, Fraction], ...]


class AllocationError(Exception):
    """An error that ends the search and rejects the node. The message gives the reason."""


def allocate(
    inventory: Inventory, matches: DeviceSelecting, claims: Sequence[DemandedClaim], site: Site, books: DeviceBooks
) -> tuple[Pick, ...] | None:
    """Return the devices of the claims; None if there are not enough.

    Raises:
        AllocationError: A selector fails, a request for all devices meets an incomplete pool, there are too
            many devices, or the search takes too long.
    """
    try:
        return _DeviceSearch(inventory, matches, claims, site, books).run()
    except CelError as error:
        raise AllocationError(str(error)) from error
    except RecursionError:
        raise AllocationError("too many devices for one pod") from None


class _RequestPart:
    """One request or alternative.

    Attributes:
        listed: For a request for all devices, the positions that it takes; None otherwise.
        positions: Positions that the search considers.
    """

    def __init__(self, request: DemandedRequest) -> None:
        self.request = request
        self.count = request.count or 0
        self.listed: list[int] | None = None
        self.positions: Sequence[int] = ()
        self.constraints: list[_ConstraintState] = []
        self._amounts: dict[int, _Amounts | None] = {}
        self._barred: dict[int, bool] = {}

    def amounts(self, kind: DeviceKind) -> _Amounts | None:
        """Return the amounts it takes of each capacity of a kind; None if the kind cannot serve it."""
        if kind.id not in self._amounts:
            self._amounts[kind.id] = kind.amounts(self.request.capacity)
        return self._amounts[kind.id]

    def add(self, kind: DeviceKind) -> bool:
        """Add a device of a kind to all constraints; return True if it satisfies them, or else change nothing."""
        for k, constraint in enumerate(self.constraints):
            if not constraint.add(kind):
                for other in self.constraints[:k]:
                    other.values.pop()
                return False
        return True

    def barred(self, kind: DeviceKind) -> bool:
        """Return True if a gate or an untolerated taint excludes devices of a kind."""
        if kind.id not in self._barred:
            self._barred[kind.id] = not kind.open_to(self.request.tolerations)
        return self._barred[kind.id]


class _ConstraintState:
    """A constraint over the devices taken so far, in ``values``."""

    def __init__(self, constraint: DemandedConstraint) -> None:
        self.attribute, self._distinct = constraint.attribute, constraint.distinct
        self.values: list[Attribute] = []

    def add(self, kind: DeviceKind) -> bool:
        """Add a device of a kind; return True if it satisfies the constraint."""
        value = kind.attributes.get(self.attribute)
        if value is None:
            return False
        if self._distinct:
            if any(value[0] == other[0] and not set(value[1]).isdisjoint(other[1]) for other in self.values):
                return False
        elif self.values:
            last = self.values[-1]
            common = tuple(each for each in last[1] if each in value[1]) if last[0] == value[0] else ()
            if not common:
                return False
            value = (value[0], common)
        self.values.append(value)
        return True


def _constrain(claim: DemandedClaim, parts: Sequence[_RequestPart]) -> None:
    """Add the constraints of a claim to its requests."""
    for constraint in claim.constraints:
        state = _ConstraintState(constraint)
        for part in parts:
            if constraint.about(part.request.name):
                part.constraints.append(state)


class _DeviceSearch:
    def __init__(
        self, inventory: Inventory, matches: DeviceSelecting, claims: Sequence[DemandedClaim], site: Site, books: DeviceBooks
    ) -> None:
        self.inventory, self.matches, self.site, self.books = inventory, matches, site, books
        self.ids: list[int] = site.visible.tolist()
        self.devices = [inventory.devices[i] for i in self.ids]
        views = [inventory.views[v] for v in site.views]
        self.elsewhere = frozenset[int]().union(*(view.elsewhere for view in views))
        self.broken = inventory.broken(site)
        short = [any(books.left[c] < 0 for c in view.counters) for view in views]
        self.short = {i for view, less in zip(views, short, strict=True) if less for i in view.ids.tolist()}
        self.claims = [[[_RequestPart(part) for part in alternatives] for alternatives in claim.requests] for claim in claims]
        for claim, parts in zip(claims, self.claims, strict=True):
            _constrain(claim, [part for alternatives in parts for part in alternatives])
        self.picks: list[list[Pick]] = [[] for _ in claims]
        self.holders: dict[int, list[int]] = {}  # unit -> claims
        self.shares: dict[int, int] = {}
        self.consumed: dict[tuple[int, str], Fraction] = {}
        self.used: dict[int, Fraction] = {}  # of counters
        self.charges: list[bool] = []  # per device taken, whether its counters are charged
        self.safe = False
        self.steps = 0

    def run(self) -> tuple[Pick, ...] | None:
        for parts in self.claims:
            least = 0
            for alternatives in parts:
                for part in alternatives:
                    if part.request.count is None:
                        part.listed = self._all(part)
                        part.count = len(part.listed)
                least += min(part.count for part in alternatives)
            if least > MAX_CLAIM_DEVICES:
                raise AllocationError(f"a claim may get at most {MAX_CLAIM_DEVICES} devices, but requests {least}")
        self.safe = self._narrow()
        return tuple(pick for picks in self.picks for pick in picks) if self._claim(0) == _DONE else None

    def _all(self, part: _RequestPart) -> list[int]:
        """Return the positions that a request for all devices takes."""
        if self.broken is not None:
            raise AllocationError(f"request {part.request.name} asks for all devices: {self.broken}")
        return [at for at in range(len(self.ids)) if self._selected(part, at) and self._large_enough(part, at)]

    def _narrow(self) -> bool:
        """Set the candidate positions of each request.

        Return True if no error is possible any more, so that the positions are exact with respect to the
        books.
        """
        parts = [part for claim in self.claims for alternatives in claim for part in alternatives if part.listed is None]
        every = range(len(self.ids))
        for part in parts:
            part.positions = every
        if any(part.listed and part.constraints for claim in self.claims for alternatives in claim for part in alternatives):
            return False
        try:
            positions_by_part = [[at for at in every if self._selected(part, at) and self._open(part, at)] for part in parts]
        except CelError:
            return False
        for part, positions in zip(parts, positions_by_part, strict=True):
            part.positions = positions
        return True

    def _selected(self, part: _RequestPart, at: int) -> bool:
        device = self.devices[at]
        return self.matches(part.request.selectors, device.kind) and device.id not in self.elsewhere

    def _open(self, part: _RequestPart, at: int) -> bool:
        """Return True if the books make a device available to a request."""
        device = self.devices[at]
        if (self.books.in_use[device.unit] and not part.request.admin) or (device.counters and device.id in self.short):
            return False
        return not part.barred(self.inventory.kinds[device.kind]) and self._large_enough(part, at)

    def _large_enough(self, part: _RequestPart, at: int) -> bool:
        device = self.devices[at]
        kind = self.inventory.kinds[device.kind]
        amounts = part.amounts(kind)
        if amounts is None:
            return False
        books, here, unit = self.books.consumed, self.consumed, device.unit
        if not (books or here):
            return True
        return all(books.get((unit, n), 0) + here.get((unit, n), 0) + amount <= kind.capacity[n].value for n, amount in amounts)

    # --- the search ---------------------------------------------------------------------------------------------------

    def _claim(self, c: int) -> int:
        return _DONE if c == len(self.claims) else self._request(c, 0)

    def _request(self, c: int, r: int) -> int:
        if r == len(self.claims[c]):
            result = self._claim(c + 1)
            return _FAIL if result == _TOO_MANY else result  # fewer devices of this claim would not help the next one
        too_many = True
        for part in self.claims[c][r]:
            result = self._device(c, r, part, 0, 0)
            if result == _DONE:
                return _DONE
            too_many = too_many and result == _TOO_MANY
        return _TOO_MANY if too_many else _FAIL

    def _device(self, c: int, r: int, part: _RequestPart, i: int, start: int) -> int:
        """Find device i of a request, and all later devices of all claims.

        Args:
            start: First of ``part.positions`` that may be taken.

        Returns:
            _DONE, with the devices taken; _TOO_MANY if a claim would get more than MOST devices; otherwise _FAIL.
        """
        if part.listed is not None and not part.listed:
            return _FAIL
        if i >= part.count:
            return self._request(c, r + 1)
        if len(self.picks[c]) + part.count - i > MAX_CLAIM_DEVICES:
            return _TOO_MANY
        if part.listed is not None:
            return self._listed_device(c, r, part, i)
        failed: set[Hashable] = set()
        positions = part.positions
        for p in range(start, len(positions)):
            if self.safe and len(positions) - p < part.count - i:
                return _FAIL
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise AllocationError("the search for devices takes too long")
            at = positions[p]
            if not self._free(c, part, at) or (not self.safe and not self._selected(part, at)) or not self._large_enough(part, at):
                continue
            if (failed and self._alike(at) in failed) or not self._take(c, part, at):
                continue
            result = self._device(c, r, part, i + 1, p + 1)
            if result == _DONE:
                return _DONE
            self._give_back(c, part, at)
            if result == _TOO_MANY:
                return _TOO_MANY
            failed.add(self._alike(at))
        return _FAIL

    def _listed_device(self, c: int, r: int, part: _RequestPart, i: int) -> int:
        """Take device i of a request for all devices, and find all later ones; see :meth:`_device`."""
        assert part.listed is not None
        if not self._free(c, part, part.listed[i]) or not self._take(c, part, part.listed[i]):
            return _FAIL
        result = self._device(c, r, part, i + 1, 0)
        if result != _DONE:
            self._give_back(c, part, part.listed[i])
        return result

    def _free(self, c: int, part: _RequestPart, at: int) -> bool:
        unit = self.devices[at].unit
        if part.request.admin:
            return c not in self.holders.get(unit, ())
        return not self.books.in_use[unit] and not self.holders.get(unit)

    def _alike(self, at: int) -> Hashable:
        """Return the traits by which devices are equivalent for the rest of the search."""
        device = self.devices[at]
        unit = device.unit
        kind = self.inventory.kinds[device.kind]
        consumed: _Amounts = ()
        if self.consumed or self.books.consumed:
            consumed = tuple((n, self.books.consumed.get((unit, n), Fraction(0)) + self.consumed.get((unit, n), 0)) for n in kind.capacity)
        status = (bool(self.books.in_use[unit]), tuple(self.holders.get(unit, ())), bool(self.books.shares[unit] or self.shares.get(unit)))
        return device.kind, device.counters, status, consumed

    def _take(self, c: int, part: _RequestPart, at: int) -> bool:
        device = self.devices[at]
        unit, kind = device.unit, self.inventory.kinds[device.kind]
        if part.barred(kind) or not self._large_enough(part, at):
            return False
        charged = bool(device.counters) and not (kind.shared and (self.books.shares[unit] or self.shares.get(unit)))
        if charged:
            residual = self.books.left
            if device.id in self.short or any(residual[n] - self.used.get(n, 0) < amount for n, amount in device.counters):
                return False
        if not part.add(kind):
            if part.listed is not None:
                raise AllocationError(f"request {part.request.name}: device {device.name} breaks a constraint of the claim")
            return False
        amounts: _Amounts = ()
        if kind.shared:
            amounts = part.amounts(kind) or ()
            self.shares[unit] = self.shares.get(unit, 0) + 1
            for name, amount in amounts:
                self.consumed[unit, name] = self.consumed.get((unit, name), Fraction(0)) + amount
        else:
            self.holders.setdefault(unit, []).append(c)
        if charged:
            for n, amount in device.counters:
                self.used[n] = self.used.get(n, Fraction(0)) + amount
        self.charges.append(charged)
        self.picks[c].append(Pick(c, part.request.name, device.id, part.request.admin, kind.shared, amounts))
        return True

    def _give_back(self, c: int, part: _RequestPart, at: int) -> None:
        device = self.devices[at]
        pick = self.picks[c].pop()
        for constraint in part.constraints:
            constraint.values.pop()
        if pick.share:
            self.shares[device.unit] -= 1
            for name, amount in pick.consumed:
                self.consumed[device.unit, name] -= amount
                if not self.consumed[device.unit, name]:
                    del self.consumed[device.unit, name]
        else:
            self.holders[device.unit].pop()
        if self.charges.pop():
            for n, amount in device.counters:
                self.used[n] -= amount
