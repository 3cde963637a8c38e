"""The allocator's search: claims, requests and devices in order; the first solution wins.

It is an exhaustive depth-first search. Indistinguishable devices are tried once: if one leads to no solution, its
equals do not either. Two faults of 1.36.2 are not reproduced: counters and constraints that keep devices which were
given back.

Source: structured/internal/incubating/allocator_incubating.go (v1.36.2), with the fixes kubernetes/kubernetes
#140431, #140435, #140600.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import itemgetter
from typing import Final

import msgspec

from kubestow.checker.rules.dynamic_resources.allocations import Allocations, CounterKey, CounterLedger, DeviceId
from kubestow.checker.rules.dynamic_resources.capacity import Amounts, consumed_amounts, lacks
from kubestow.checker.rules.dynamic_resources.device_requests import MAX_RESULTS, RequestAlternative, Value, Wanted, limit_fault
from kubestow.checker.rules.dynamic_resources.pools import DeviceError, DevicePool, Published, node_matches
from kubestow.models.cel.selectors import CelError, CompiledSelector, UnsupportedExpression, compile_selector
from kubestow.models.kube import objects
from kubestow.models.kube.feature_gates import FeatureGates

#: Largest number of candidate devices that a search tries. kube-scheduler stops after ten seconds instead.
MAX_SEARCH_STEPS: Final = 100_000


class Matcher:
    """Device selectors, evaluated once for all devices of equal content."""

    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates
        self._compiled: dict[str, CompiledSelector | str] = {}
        self._contents: dict[bytes, int] = {}
        self._content: dict[int, tuple[Published, int]] = {}
        self._found: dict[tuple[str, int], bool | str] = {}

    def matches(self, expressions: Sequence[str], device: Published) -> bool:
        """Return True if all expressions hold for the device, evaluated in order.

        Raises:
            DeviceError: an expression does not compile, or fails on this device.
        """
        content = self._content_of(device)
        for expression in expressions:
            key = expression, content
            if key not in self._found:
                self._found[key] = self._evaluate(expression, device)
            found = self._found[key]
            if isinstance(found, str):
                raise DeviceError(f"selector {expression!r}: {found}")
            if not found:
                return False
        return True

    def _evaluate(self, expression: str, device: Published) -> bool | str:
        try:
            if expression not in self._compiled:
                self._compiled[expression] = compile_selector(expression, self._gates)
            selector = self._compiled[expression]
            return selector if isinstance(selector, str) else selector.matches(device.spec.driver, device.device)
        except (CelError, UnsupportedExpression) as error:
            return str(error)

    def _content_of(self, device: Published) -> int:
        known = self._content.get(id(device))
        if known is None:
            raw = device.device
            content = msgspec.json.encode((device.spec.driver, raw.attributes, raw.capacity, raw.allowMultipleAllocations))
            known = self._content[id(device)] = device, self._contents.setdefault(content, len(self._contents))
        return known[1]


@dataclass(slots=True)
class AssignedDevice:
    """A device that a request is given.

    Attributes:
        ask: The request.
        device: The device.
        pool: Its pool.
        consumed: Consumed capacity if the device is shared, else None.
        charged: True if counters were charged.
    """

    ask: RequestAlternative
    device: Published
    pool: DevicePool
    consumed: Amounts | None
    charged: bool


@dataclass(slots=True, frozen=True)
class _SearchPosition:
    """A position in the search.

    Attributes:
        claim: Index of the claim.
        request: Index of the request in the claim.
        alternative: Index of the chosen alternative, or None.
        devices: Number of devices that the request has.
        start: Index of the next device to try.
    """

    claim: int
    request: int = 0
    alternative: int | None = None
    devices: int = 0
    start: int = 0


class Search:
    """The search for one pod on one node."""

    def __init__(
        self,
        wanted: Sequence[Wanted],
        node: objects.Node,
        pools: Sequence[DevicePool],
        books: Allocations,
        matcher: Matcher,
        gates: FeatureGates,
    ) -> None:
        self._wanted, self._node, self._books, self._matcher = wanted, node, books, matcher
        self._flaw = next((pool.flaw for pool in pools if pool.flaw is not None), None)
        self._devices = [(device, pool) for pool in pools if pool.usable for device in pool.devices]
        self._sharing = gates.enabled("DRAConsumableCapacity")
        self._partitions = gates.enabled("DRAPartitionableDevices")
        self._conditions = gates.enabled("DRADeviceBindingConditions") and gates.enabled("DRAResourceClaimDeviceStatus")
        self._listed: dict[int, list[int]] = {}  # ask -> devices of All
        self._verdicts: dict[tuple[int, int], bool] = {}
        self._results: list[list[AssignedDevice]] = [[] for _ in wanted]
        self._values: list[list[list[Value]]] = [[[] for _ in each.constraints] for each in wanted]
        self._holders: dict[DeviceId, set[int]] = {}  # claims of this pod that take the whole device
        self._shares: dict[DeviceId, list[Amounts]] = {}
        self._charged: dict[CounterLedger, dict[CounterKey, Fraction]] = {}
        self._steps = 0

    def run(self) -> list[list[AssignedDevice]] | None:
        """Return the devices of each claim, or None if there is no solution.

        Raises:
            DeviceError: the allocator would fail.
            QuantityError: a quantity is malformed.
        """
        for each in self._wanted:
            self._check(each)
        stack = [self._choices(_SearchPosition(0))]
        while stack:
            at = next(stack[-1], None)
            if at is None:
                stack.pop()
            elif at.claim == len(self._wanted):
                return self._results
            else:
                stack.append(self._choices(at))
        return None

    def _check(self, wanted: Wanted) -> None:
        """Check a claim for errors before the search begins.

        Raises:
            DeviceError: the claim or one of its requests is invalid.
        """
        counts: dict[int, int] = {}
        for ask in (each for alternatives in wanted.requests for each in alternatives):
            fault = ask.fault or (self._flaw if ask.everything else None)
            if fault is not None:
                raise DeviceError(f"claim {wanted.label}, request {ask.name}: {fault}")
            if ask.everything:
                self._listed[ask.number] = [i for i in range(len(self._devices)) if self._is_eligible(ask, i)]
            counts[ask.number] = len(self._listed[ask.number]) if ask.everything else ask.count
        fault = limit_fault(wanted, counts) or wanted.fault
        if fault is not None:
            raise DeviceError(f"claim {wanted.label}: {fault}")

    # --- the search -----------------------------------------------------------------------------------------------------

    def _choices(self, at: _SearchPosition) -> Iterator[_SearchPosition]:
        """Yield the next positions of the search. Devices taken for one are given back before the next."""
        wanted = self._wanted[at.claim] if at.claim < len(self._wanted) else None
        if wanted is None or at.request == len(wanted.requests):
            yield _SearchPosition(at.claim + (wanted is not None))
            return
        alternatives = wanted.requests[at.request]
        if at.alternative is None:
            yield from (_SearchPosition(at.claim, at.request, number) for number in range(len(alternatives)))
            return
        ask = alternatives[at.alternative]
        listed = self._listed[ask.number] if ask.everything else None
        count = ask.count if listed is None else len(listed)
        if at.devices >= count and listed != []:
            yield _SearchPosition(at.claim, at.request + 1)
        elif at.devices < count and len(self._results[at.claim]) + count - at.devices <= MAX_RESULTS:
            yield from self._takings(at, ask, listed)

    def _takings(self, at: _SearchPosition, ask: RequestAlternative, listed: Sequence[int] | None) -> Iterator[_SearchPosition]:
        """Take the next device of a request and yield the position after it. Devices of mode All have a fixed order."""
        futile: set[object] = set()
        for index in range(at.start, len(self._devices)) if listed is None else (listed[at.devices],):
            self._steps += 1
            if self._steps > MAX_SEARCH_STEPS:
                raise DeviceError(f"no devices were found in {MAX_SEARCH_STEPS} steps")
            if listed is None and (self._is_taken(at.claim, ask, self._devices[index][0]) or not self._is_eligible(ask, index)):
                continue
            if futile and self._kind(index) in futile:
                continue
            if self._take(at.claim, ask, index, must=listed is not None) is None:
                yield _SearchPosition(at.claim, at.request, at.alternative, at.devices + 1, index + 1)
                self._give_back(at.claim)
                if listed is None:
                    futile.add(self._kind(index))

    def _kind(self, index: int) -> object:
        """Return a key of everything that the rest of the search reads of a device.

        Devices with equal keys are interchangeable in any solution.
        """
        device, pool = self._devices[index]
        raw = device.device
        verdicts: list[bool | str] = []
        for ask in (each for wanted in self._wanted for alternatives in wanted.requests for each in alternatives):
            try:
                verdicts.append(self._is_selectable(ask, index))
            except DeviceError as error:
                verdicts.append(str(error))
        values = tuple(constraint.value(device) for wanted in self._wanted for constraint in wanted.constraints)
        consumes = (id(pool.ledger), tuple(device.needs)) if raw.consumesCounters else None
        taints = tuple((taint.key, taint.value or "", taint.effect) for taint in device.taints)
        allocation = self._books.is_held(device.id), self._books.is_shared(device.id), _frozen(self._books.consumed(device.id))
        mine = frozenset(self._holders.get(device.id, ())), tuple(_frozen(each) for each in self._shares.get(device.id, ()))
        return (
            tuple(verdicts),
            values,
            consumes,
            taints,
            device.shared,
            tuple(sorted(device.capacity.items(), key=itemgetter(0))),
            allocation,
            mine,
        )

    # --- one device -----------------------------------------------------------------------------------------------------

    def _is_taken(self, claim: int, ask: RequestAlternative, device: Published) -> bool:
        """Return True if the device is in use. With admin access, only use by the same claim counts."""
        holders = self._holders.get(device.id)
        if ask.admin:
            return holders is not None and claim in holders
        return bool(holders) or self._books.is_held(device.id)

    def _is_eligible(self, ask: RequestAlternative, index: int) -> bool:
        """Return True if the device is selected, available to this node and large enough."""
        return self._is_selectable(ask, index) and self._lacks(ask, self._devices[index][0]) is None

    def _is_selectable(self, ask: RequestAlternative, index: int) -> bool:
        key = ask.number, index
        if key not in self._verdicts:
            device, raw = self._devices[index][0], self._devices[index][0].device
            fits = (self._conditions or not raw.bindingConditions) and self._matcher.matches(ask.expressions, device)
            if fits and device.spec.perDeviceNodeSelection:
                fits = node_matches(self._node, raw.nodeName, raw.allNodes, raw.nodeSelector)
            self._verdicts[key] = fits
        return self._verdicts[key]

    def _lacks(self, ask: RequestAlternative, device: Published) -> str | None:
        if not self._sharing or not device.device.capacity:
            return f"it has no capacity {next(iter(ask.amounts))}" if self._sharing and ask.amounts else None
        return lacks(device.capacity, ask.amounts, self._books.consumed(device.id), *self._shares.get(device.id, ()))

    def _take(self, claim: int, ask: RequestAlternative, index: int, *, must: bool) -> str | None:
        """Take an eligible device. Return why it cannot be taken, or None.

        Args:
            claim: Index of the claim.
            ask: The request.
            index: Index of the device.
            must: True if a broken constraint is an error.

        Raises:
            DeviceError: a constraint is broken and ``must`` is set.
        """
        device, pool = self._devices[index]
        if self._is_taken(claim, ask, device):
            return "it is in use"
        charges = bool(device.device.consumesCounters)
        if charges and not self._partitions:
            return "it consumes counters, and the gate DRAPartitionableDevices is off"
        if device.shared and (self._books.is_shared(device.id) or self._shares.get(device.id)):
            charges = False
        if charges and pool.ledger is not None and not self._charge(pool.ledger, device, 1):
            return "the counters of its pool do not suffice"
        why = self._refusal(claim, ask, device)
        if why is not None:
            if charges and pool.ledger is not None:
                self._charge(pool.ledger, device, -1)
            if must and why.startswith("constraint"):
                raise DeviceError(f"claim {self._wanted[claim].label}, request {ask.name}: device {device}: {why} breaks, and All needs it")
            return why
        for constraint, values in zip(self._wanted[claim].constraints, self._values[claim], strict=True):
            if constraint.concerns(ask):
                values.extend(constraint.value(device) or ())
        consumed = consumed_amounts(device.capacity, ask.amounts) if device.shared else None
        if consumed is None:
            self._holders.setdefault(device.id, set()).add(claim)
        else:
            self._shares.setdefault(device.id, []).append(consumed)
        self._results[claim].append(AssignedDevice(ask, device, pool, consumed, charges))
        return None

    def _refusal(self, claim: int, ask: RequestAlternative, device: Published) -> str | None:
        """Return why taints, constraints or capacity exclude a device, or None."""
        taint = next((each for each in device.taints if not ask.tolerates(each)), None)
        if taint is not None:
            return f"taint {taint.key}={taint.value or ''}:{taint.effect} is not tolerated"
        for constraint, values in zip(self._wanted[claim].constraints, self._values[claim], strict=True):
            if constraint.concerns(ask):
                value = constraint.value(device)
                if value is None or not constraint.admits(values, value[0]):
                    return f"constraint {'distinct' if constraint.distinct else 'match'}Attribute {constraint.attribute}"
        return self._lacks(ask, device)

    def _charge(self, ledger: CounterLedger, device: Published, by: int) -> bool:
        """Charge the counters of a device, or return them (``by`` -1).

        Returns:
            False, without any charge, if a counter would become negative.
        """
        charged = self._charged.setdefault(ledger, {})
        for key, amount in device.needs:
            charged[key] = charged.get(key, Fraction(0)) + by * amount
        if by < 0 or all(remaining >= charged.get(key, 0) for key, remaining in ledger.remaining.items()):
            return True
        self._charge(ledger, device, -1)
        return False

    def _give_back(self, claim: int) -> None:
        """Return the device that the claim took last."""
        last = self._results[claim].pop()
        for constraint, values in zip(self._wanted[claim].constraints, self._values[claim], strict=True):
            if constraint.concerns(last.ask):
                values.pop()
        if last.consumed is None:
            self._holders[last.device.id].discard(claim)
        else:
            self._shares[last.device.id].pop()
        if last.charged and last.pool.ledger is not None:
            self._charge(last.pool.ledger, last.device, -1)


def _frozen(amounts: Amounts) -> tuple[tuple[str, Fraction], ...]:
    return tuple(sorted(amounts.items()))
