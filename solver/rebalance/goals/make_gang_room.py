"""Places for the pending pods of a gang, in each domain that could hold it or anywhere, with few moves of others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kubestow.models.cluster.cluster import GangGroup, Ids, Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rebalance.goals.make_room import INFEASIBLE_COST, RoomMaker
from kubestow.solver.rebalance.goals.move_builder import MoveBuilder
from kubestow.solver.rebalance.problem.problem import Step
from kubestow.solver.rebalance.sequencing.gang_binding import bind_gang

#: Domains that are tried for one gang.
MAX_DOMAINS = 24


def admit_gang(builder: MoveBuilder, room_maker: RoomMaker, k: int) -> bool:
    """Bind as many pods of gang k as it needs, or more, with as few evictions and moves as the search finds.

    Returns:
        True if the gang was bound.
    """
    gang = builder.problem.cluster.gangs[k]
    before = len(builder.steps)
    best: tuple[int, int, int, list[Step]] | None = None  # minus the pods bound, evictions (of lower priority), cost of moves, steps
    count = sum(builder.problem.cluster.classes[g].count for g in gang.classes)
    for least, region in _regions(builder, room_maker, gang):
        if builder.over() or (best is not None and best[:3] <= (-count, 0, least)):
            break
        limit = best[2] if best is not None and best[:2] == (-count, 0) else INFEASIBLE_COST
        steps = _fill(builder, room_maker, gang, region, limit)
        builder.rewind_to(before)
        if steps is not None:
            gone = sum(step.b < 0 for step in steps)
            bound = sum(step.k for step in steps if step.a < 0)
            cost = _cost(builder, steps)
            if best is None or (-bound, gone, cost) < best[:3]:
                best = -bound, gone, cost, steps
    for step in best[3] if best is not None else ():
        builder.take(step)
    return best is not None


def _regions(builder: MoveBuilder, room_maker: RoomMaker, gang: GangGroup) -> Iterator[tuple[int, Bools | None]]:
    """Yield the regions that could hold the gang, the cheapest first: domains, then None for all nodes.

    Yields:
        A lower bound on the cost, as far as estimated, and the domain, bool[N].
    """
    problem, cluster = builder.problem, builder.problem.cluster
    keys = [gang.key] if gang.key is not None else []
    for g in gang.classes:
        affinity = cluster.classes[g].affinity
        if affinity is not None and cluster.matches(affinity.full)[list(gang.classes)].any():
            keys += affinity.keys
    found: list[tuple[int, int, Bools]] = []
    prices = _Prices(builder, room_maker, gang) if keys else None
    for key in dict.fromkeys(keys):
        for nodes in cluster.members(key):
            cost = prices.of(nodes) if prices is not None else INFEASIBLE_COST
            if cost < INFEASIBLE_COST:
                region = np.zeros(cluster.n_nodes, dtype=bool)
                region[nodes] = True
                found.append((cost, len(found), region & ~problem.closed))
    for cost, _, region in sorted(found, key=lambda f: f[:2])[:MAX_DOMAINS]:
        yield cost, region
    if gang.key is None:
        yield 0, None


class _Prices:
    """Estimated cost of the gang's members on some nodes, used for ordering only. A full node takes one pod."""

    def __init__(self, builder: MoveBuilder, room_maker: RoomMaker, gang: GangGroup) -> None:
        self.needed = gang.needed
        self.counts = [builder.problem.cluster.classes[g].count for g in gang.classes]
        self.price: list[Ints] = []
        self.room: list[Ints] = []
        for g in gang.classes:
            price = room_maker.price(g)
            self.price.append(price)
            self.room.append(np.where(price == 0, builder.state.fit.room(g), price < INFEASIBLE_COST))

    def of(self, nodes: Ids) -> int:
        """Return the estimated cost of the members on some nodes; INFEASIBLE_COST if the nodes hold too few."""
        cost = capacity = 0
        for count, price, room in zip(self.counts, self.price, self.room, strict=True):
            order = nodes[np.argsort(price[nodes], kind="stable")]
            order = order[price[order] < INFEASIBLE_COST]
            members = np.minimum(np.cumsum(room[order]), count)
            cost += int((np.diff(members, prepend=0) * price[order]).sum())
            capacity += count if len(order) else 0
        return cost if capacity >= self.needed else INFEASIBLE_COST


def _fill(builder: MoveBuilder, room_maker: RoomMaker, gang: GangGroup, region: Bools | None, limit: int) -> list[Step] | None:
    """Return steps that bind the gang in a region by moves that cost less than ``limit``, or None.

    The pods first find places one by one, as if the pods that they must be near were there already. Then they
    are bound for good, after all moves. The steps may stay in the builder.
    """
    before = len(builder.steps)
    vouched = [(face, face.vouch(gang.classes, region)) for face in builder.state.faces if region is not None]
    whole = _members(builder, room_maker, gang, region, limit)
    steps = builder.steps[before:]
    builder.rewind_to(before)
    for face, by in vouched:
        face.unvouch(by)
    if not whole:
        return None
    cells: dict[tuple[int, int], int] = {}
    for step in steps:
        if step.a < 0:
            cells[step.g, step.b] = cells.get((step.g, step.b), 0) + step.k
    moves = [step for step in steps if step.a >= 0]
    if builder.replay(moves) and (bound := bind_gang(builder.state, cells)) is not None:
        for step in reversed(bound):
            builder.state.undo(step)
        return [*moves, *bound]
    builder.rewind_to(before)
    return steps if builder.replay(steps) else None


def _members(builder: MoveBuilder, room_maker: RoomMaker, gang: GangGroup, region: Bools | None, limit: int) -> bool:
    """Place members, the largest first; return True if enough were placed."""
    classes, before = builder.problem.cluster.classes, len(builder.steps)
    spare = sum(classes[g].count for g in gang.classes) - gang.needed
    for g in sorted(gang.classes, key=lambda g: -builder.size(g)):
        for i in range(classes[g].count):
            if builder.over():
                return False
            if not room_maker.place(g, region):
                spare -= classes[g].count - i
                break
            if limit < INFEASIBLE_COST and _cost(builder, builder.steps[before:]) >= limit:
                return False
        if spare < 0:
            return False
    return True


def _cost(builder: MoveBuilder, steps: list[Step]) -> int:
    """Return the total cost of the moves among some steps."""
    return sum(int(builder.problem.cost[step.g]) * step.k for step in steps if step.a >= 0)
