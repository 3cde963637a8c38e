"""Device shortages of a node in a few words: matching devices, free devices, and constraints between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kubestow.models.cel.selectors import CelError
from kubestow.models.devices.demand import DemandedClaim, DemandedRequest
from kubestow.models.devices.inventory import InventoryDevice
from kubestow.solver.devices.state import DeviceState

#: Maximum number of distinct reasons in one message.
_MAX_REASONS: Final = 3
#: Maximum number of characters of an error.
_MAX_ERROR_CHARACTERS: Final = 160


@dataclass(frozen=True)
class Available:
    """The devices of a node for one request. Each count is a subset of the one before.

    Attributes:
        total: Devices that the node sees.
        matching: Devices that the selectors match.
        open: Devices whose taints and capacity allow the request.
        free: Devices that nobody has allocated.
        alike: Largest number of free devices with equal values of all attributes that must match; None if
            none must.
    """

    total: int
    matching: int
    open: int
    free: int
    alike: int | None = None


def asked(claim: DemandedClaim, request: DemandedRequest) -> str:
    """Return a request as text: ``4 a100``, ``all gpu`` or ``4 a100 of one gpu.example.com/nvlink``."""
    many = request.count is None or request.count > 1
    ties = [
        f"{'of different' if constraint.distinct else 'of one'} {constraint.attribute}"
        for constraint in claim.constraints
        if constraint.about(request.name) and (many or len(claim.requests) > 1)
    ]
    amount = "all" if request.count is None else str(request.count)
    return " ".join([amount, request.device_class, *(" and ".join(ties[:_MAX_REASONS]),)]).strip()


def claims_asked(claims: Sequence[DemandedClaim]) -> str:
    """Return the requests of claims as text: ``2 gpu, 1 nic``. Of alternatives, only the first is shown."""
    words = [asked(claim, alternatives[0]) for claim in claims for alternatives in claim.requests if alternatives]
    return ", ".join([*words[:_MAX_REASONS], *(["…"] if len(words) > _MAX_REASONS else [])]) or "nothing"


def available(state: DeviceState, claim: DemandedClaim, request: DemandedRequest, n: int) -> Available:
    """Return the devices of node n for a request of a claim in the current state.

    Raises:
        CelError: A selector fails on one of its devices.
    """
    inventory = state.inventory
    devices = [inventory.devices[i] for i in inventory.visible(n).tolist()]
    matching = [each for each in devices if state.table.matches(request.selectors, each.kind)]
    may = [each for each in matching if _open(state, request, each)]
    free = [inventory.kinds[each.kind] for each in may if _free(state, request, each)]
    same = [each.attribute for each in claim.constraints if not each.distinct and each.about(request.name)]
    alike = None
    if same:
        values = [tuple(kind.attributes.get(name) for name in same) for kind in free]
        alike = max(Counter(value for value in values if None not in value).values(), default=0)
    return Available(len(devices), len(matching), len(may), len(free), alike)


def _open(state: DeviceState, request: DemandedRequest, device: InventoryDevice) -> bool:
    kind = state.inventory.kinds[device.kind]
    return kind.open_to(request.tolerations) and kind.amounts(request.capacity) is not None


def _free(state: DeviceState, request: DemandedRequest, device: InventoryDevice) -> bool:
    books, kind = state.books, state.inventory.kinds[device.kind]
    if books.in_use[device.unit] and not request.admin:
        return False
    if not (kind.shared and books.shares[device.unit]) and any(books.left[c] < amount for c, amount in device.counters):
        return False
    amounts = kind.amounts(request.capacity)
    return amounts is not None and all(
        books.consumed.get((device.unit, name), 0) + amount <= kind.capacity[name].value for name, amount in amounts
    )


def why_not(state: DeviceState, claims: Sequence[DemandedClaim], n: int) -> tuple[str, str]:
    """Return the unserved part of the claims and the reason on node n, where they currently get no devices."""
    # List-valued attributes may match in part. Then ``alike`` is a lower bound, and the text still says too few.
    error = state.error(tuple(claims), n)
    if error is not None:
        return claims_asked(claims), _cut(error)
    for claim, alternatives in _choices(claims):
        unserved = _unserved(state, claim, alternatives, n)
        if unserved is not None:
            return unserved
    constrained = any(claim.constraints for claim in claims)
    if len(claims) == 1 and len(claims[0].requests) == 1:
        return claims_asked(claims), "no such set is free" if constrained else "not free together"
    return claims_asked(claims), "not free together" + (" under the constraints" if constrained else "")


def _unserved(state: DeviceState, claim: DemandedClaim, alternatives: Sequence[DemandedRequest], n: int) -> tuple[str, str] | None:
    """Return the first alternative of a request and why it is not served on node n. None if one of them is."""
    broken = state.inventory.broken(state.inventory.site(n))
    best: tuple[str, str] | None = None
    for request in alternatives:
        try:
            counts = available(state, claim, request, n)
        except CelError as problem:
            return asked(claim, request), _cut(str(problem))
        wanted = request.count if request.count is not None else max(1, counts.open)
        if counts.free >= wanted and (counts.alike is None or counts.alike >= wanted):
            return None
        best = best or (asked(claim, request), broken if broken is not None and not counts.total else _short(request, counts))
    return best


def _cut(error: str) -> str:
    return error if len(error) <= _MAX_ERROR_CHARACTERS else f"{error[:_MAX_ERROR_CHARACTERS]}…"


def _choices(claims: Sequence[DemandedClaim]) -> Iterator[tuple[DemandedClaim, tuple[DemandedRequest, ...]]]:
    for claim in claims:
        for alternatives in claim.requests:
            yield claim, alternatives


def _short(request: DemandedRequest, counts: Available) -> str:
    if not counts.total:
        return "no devices"
    if not counts.matching:
        return "none matches"
    wanted = counts.matching if request.count is None else request.count
    if counts.matching < wanted:
        return f"only {counts.matching} match{'es' * (counts.matching == 1)}"
    if counts.open < wanted:
        return f"{counts.open} of {counts.matching} that match may be taken"
    if counts.free < wanted or counts.alike is None:
        return f"{counts.free} of {counts.open} free"
    return f"at most {counts.alike} of the {counts.free} free"


def summed(reasons: Sequence[tuple[str, str, str]]) -> str:
    """Return the reasons on several nodes as one sentence: ``4 a100 asked for: 2 of 4 free on 3 nodes, no devices on n1``.

    Args:
        reasons: (unserved part, reason, name of the node).
    """
    by_part: dict[str, dict[str, list[str]]] = {}
    for part, why, node in reasons:
        by_part.setdefault(part, {}).setdefault(why, []).append(node)
    said = []
    for part, nodes_by_reason in list(by_part.items())[:_MAX_REASONS]:
        by_frequency = sorted(nodes_by_reason.items(), key=lambda item: -len(item[1]))
        words = [f"{why} on {_on(nodes)}" for why, nodes in by_frequency[:_MAX_REASONS]]
        more = [node for _, nodes in by_frequency[_MAX_REASONS:] for node in nodes]
        said.append(f"{part} asked for: {', '.join([*words, *([f'too few on {_on(more)}'] if more else [])])}")
    return "; ".join([*said, *(["…"] if len(by_part) > _MAX_REASONS else [])])


def _on(nodes: Sequence[str]) -> str:
    return nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"
