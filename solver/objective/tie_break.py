"""The tie-break: what breaks ties once every preference has its due.

`spread` minimises Σ over nodes and {cpu, memory} of f(u), u the utilisation in thousandths of allocatable, rounded up. f is u² up to 10,
at multiples of 10 up to 100 and at multiples of 100 beyond, linearly interpolated between: convex, whole numbers, also where nodes are all
but idle, and a node at 90 % costs as much as nine at 30 %. u counts up to a thousand times allocatable, which only nodes with less than
they run with reach.
`pack` minimises the nodes that run anything but DaemonSet and static pods, or the sum of their prices, in thousandths.
Values are negative costs, so that every tier is maximised.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.kube import quantity
from kubestow.models.kube.objects import Pod, controller_of
from kubestow.models.snapshot.scope import is_mirror
from kubestow.models.snapshot.snapshot import InputError
from kubestow.solver.objective.sparse_placement import cells

if TYPE_CHECKING:
    from kubestow.solver.cpsat.linear_sum import Encodes, Points

#: Where linear pieces of f become wider, in thousandths: from here on, the width. Each is a multiple of the one before.
PIECES = ((0, 1), (10, 10), (100, 100))
#: Beyond a thousand times what is allocatable, in thousandths, more does not cost more: sums of squares stay within 64 bits.
CAP = 1_000_000
#: A node with less memory, in bytes, counts as one without: its utilisation may be beyond what 64 bits hold.
LEAST_MEMORY = 16 * 2**20
#: Dearest node, in thousandths: sums over millions of nodes stay within 64 bits.
_DEAREST = 10**12
#: Rows stay below this, so that CP-SAT can sum them.
_LARGEST = 2**58
_COLUMNS = 2  # cpu and memory lead the resources


#: Beyond this sums no longer fit into 64 bits.
_MOST = 2**63 - 1


def bend(u: Ints) -> Ints:
    """Return f(u), elementwise."""
    width = np.select([u < PIECES[1][0], u < PIECES[2][0]], [PIECES[0][1], PIECES[1][1]], PIECES[2][1])
    low = u - u % width
    return np.asarray(low * low + (2 * low + width) * (u - low), dtype=np.int64)


def kinks(first: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the linear pieces (from, to) of f that lie between two utilisations, whole or in part."""
    low = first
    while low < end:
        width = next(width for start, width in reversed(PIECES) if low >= start)
        low -= low % width
        yield low, low + width
        low += width


class Strategy(ABC):
    """What breaks ties: the tier that the document calls `strategy`."""

    @abstractmethod
    def value(self, counts: Ints) -> int:
        """Return the value of a placement int64[G, N]."""

    @abstractmethod
    def bound(self, counts: Ints, *, complete: bool) -> int:
        """Return what no placement of the same pods exceeds (``complete``: of all pods; otherwise of any pods)."""

    @abstractmethod
    def encode(self, encoding: Encodes) -> Points:
        """Return the value as a linear expression over a model.

        Raises:
            OverflowError: sums beyond what CP-SAT can sum.
        """

    def pod_costs(self, counts: Ints) -> PodCosts | None:
        """Return what one more pod costs in a placement, int64[G, N]; None where moving pods one by one leads nowhere."""
        return None


class Spread(Strategy):
    """Even utilisation. ``used``: int64[N, 2], what fixed pods count for; ``demand``: int64[G, 2], what a pod of each class does: its
    request, and what is supposed of containers that have none."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        width = min(_COLUMNS, len(cluster.resources))
        whole = cluster.allocatable[:, :width]
        self.total = np.where(whole < np.array([1, LEAST_MEMORY])[:width], 0, whole)
        more = cluster.fixed_supposed[:, :width]
        self.used = np.minimum(np.maximum(whole - cluster.free[:, :width], 0), _MOST - more) + more
        self.demand = cluster.demand[:, :width] + cluster.supposed[:, :width]

    def _load(self, used: Ints, total: Ints | None = None) -> Ints:
        """int64[N, 2]: utilisation in thousandths, rounded up; nodes without the resource have none. ``total``: of other nodes."""
        total = self.total if total is None else total
        safe = np.maximum(total, 1)
        if int(safe.max(initial=1)) >= 2**53 or int(used.max(initial=0)) >= 2**62:  # beyond what 64 bits multiply
            safe, used = safe.astype(object), used.astype(object)
        found = np.minimum(used // safe, CAP) * 1000 - (-(used % safe) * 1000) // safe
        return np.asarray(np.where(total > 0, np.minimum(found, CAP), 0), dtype=np.int64)

    def value(self, counts: Ints) -> int:
        return -int(bend(self._load(self.taken(counts))).sum())

    def taken(self, counts: Ints) -> Ints:
        """Return int64[N, 2]: what the pods of each node count for in a placement int64[G, N]."""
        found: Ints = self.used.copy()
        rows, nodes = cells(counts)  # hardly any of the pairs: a product of the matrices takes far longer
        more = counts[rows, nodes][:, None] * self.demand[rows]
        for r in range(found.shape[1]):
            np.add.at(found[:, r], nodes, more[:, r])
        return found

    def bound(self, counts: Ints, *, complete: bool) -> int:
        """Return the value of the demand poured over the nodes in fractions. By Lagrangian duality any price
        per unit gives a bound; the one used is where pouring would end."""
        best = -int(bend(self._load(self.used)).sum())
        if not complete or (self._load(self.taken(counts)) >= CAP).any():
            return best
        total = 0
        for r in range(self.demand.shape[1]):
            total += self._poured(self.used[:, r], self.total[:, r], int((counts.sum(axis=1) * self.demand[:, r]).sum()))
        return min(best, -total)

    def _poured(self, used: Ints, total: Ints, demand: int) -> int:
        """Least Σ f in fractions, rounded up. Equal nodes are poured together."""
        here = total > 0
        if not here.any():
            return 0
        kinds, number = np.unique(np.stack([used[here], total[here]], axis=1), axis=0, return_counts=True)
        nodes = [(int(u), int(t), int(k)) for (u, t), k in zip(kinds, number, strict=True)]
        segments: list[tuple[float, float, Fraction]] = []  # (slope, room, slope exactly); floats only find the price
        for u, t, k in nodes:
            at = Fraction(1000 * u, t)
            for low, high in kinks(int(at), 1000):
                room = Fraction(t, 1000) * (high - max(at, Fraction(low)))
                segments.append(((low + high) / t, float(room) * k, Fraction((low + high) * 1000, t)))
        segments.sort(key=lambda segment: segment[0])
        left = float(demand)
        price = Fraction(0)
        for _, width, slope in segments:
            price = slope
            left -= width
            if left <= 0:
                break
        cost = price * demand + sum(k * self._least(u, t, price) for u, t, k in nodes)
        return -((-cost.numerator) // cost.denominator)

    @staticmethod
    def _least(used: int, total: int, price: Fraction) -> Fraction:
        """min over added y ≥ 0 of f(utilisation) - price · y: at the start, or at a kink."""
        at = Fraction(1000 * used, total)
        best = None
        for low, high in kinks(int(at), max(1000, int(at) + 1)):
            best = low * low + (low + high) * (at - low) if best is None else best
            best = min(best, high * high - price * (Fraction(total * high, 1000) - used))
        assert best is not None
        return best

    def pod_costs(self, counts: Ints) -> PodCosts:
        return PodCosts(self, counts)

    def cost(self, used: Ints) -> Ints:
        """Return int64[N]: what each node costs that uses so much (int64[N, 2])."""
        return np.asarray(bend(self._load(np.maximum(used, 0))).sum(axis=1), dtype=np.int64)

    def cost_on(self, n: int, used: Ints) -> Ints:
        """Return int64[K]: what node n costs with each of several uses (int64[K, 2])."""
        return np.asarray(bend(self._load(used, self.total[n])).sum(axis=1), dtype=np.int64)

    def _supposed(self, n: int, r: int, classes: Sequence[int]) -> int:
        """Return what pods of some classes may count for on a node, at most, beyond their requests, for which alone it has to have room."""
        chosen, cluster = list(classes), self.cluster
        pods = min(int(cluster.count[chosen].sum()), max(0, int(cluster.slots[n])))
        return pods * int(cluster.supposed[chosen, r].max(initial=0))

    def encode(self, encoding: Encodes, rest: Ints | None = None, fullest: Ints | None = None) -> Points:
        """Return the value as a linear expression: utilisation above its row, cost above the tangents of f. ``rest``: int64[G, N], pods
        that stay where the model does not move any; ``fullest``: [N, 2], integers, what each node can come to count for, without what is
        supposed of pods that come, where pods may ask for more than nodes have room for."""
        from kubestow.solver.cpsat.linear_sum import Points

        points, model = Points(), encoding.model
        held = self.used if rest is None else self.used + rest.T @ self.demand
        before = held if fullest is None else fullest
        supposed = self.cluster.fixed_supposed if rest is None else self.cluster.fixed_supposed + rest.T @ self.cluster.supposed
        for n, r in np.argwhere(self.total > 0).tolist():
            total, used = int(self.total[n, r]), int(held[n, r])
            now = min(-(-1000 * used // total), CAP)
            lowest = int(bend(np.array([now]))[0])
            asking = [g for g in encoding.classes_on(n) if self.demand[g, r]]
            if not asking or (now == CAP and fullest is None):  # nothing comes to such a node that asks for more
                points.constant -= lowest
                continue
            more = -(-1000 * (self._supposed(n, r, asking) + int(supposed[n, r])) // total)
            most = max(now, 1000, -(-1000 * int(before[n, r]) // total)) + more
            if more and most > CAP:
                raise OverflowError("utilisation beyond what CP-SAT can sum")
            load = model.new_int_var(now, most, "")
            # Divided by what demands and total have in common; what is used is rounded up, which changes nothing in whole numbers.
            unit = gcd(total, *(1000 * int(self.demand[g, r]) for g in asking))
            if total // unit * most > _LARGEST:
                raise OverflowError("utilisation beyond what CP-SAT can sum")
            weights = [1000 * int(self.demand[g, r]) // unit for g in asking]
            asked = encoding.weighted_sum([encoding.x[g, n] for g in asking], weights)
            model.add(asked - -1000 * used // unit <= total // unit * load)
            highest = int(bend(np.array([most]))[0])
            cost = model.new_int_var(lowest, highest, "")
            for low, high in _tangents(now, most):
                model.add(cost >= (low + high) * load - low * high)
            points.add(cost, -1, lowest, highest)
        return points


class PodCosts:
    """What one more pod costs in a placement that changes. ``used``: int64[N, 2], what its pods count for on each node."""

    def __init__(self, balance: Spread, counts: Ints) -> None:
        self.balance = balance
        self.used = balance.taken(counts)

    def put(self, g: int, n: int, k: int) -> None:
        """Put k pods of class g more on node n."""
        self.used[n] += k * self.balance.demand[g]

    def of(self, g: int) -> Ints:
        """Return int64[N]: what one more pod of class g costs on each node."""
        return self.balance.cost(self.used + self.balance.demand[g]) - self.balance.cost(self.used)


def _tangents(first: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the pieces of the cost that get a tangent: all up to 1000, then ever fewer, which only loosens the bound."""
    yield from kinks(first, min(end, 1000))
    width = PIECES[-1][1]
    low = begin = max(1000, first) // width * width
    while low < end:
        yield low, low + width
        low += width * max(1, (low - begin) // (32 * width))


class Pack(Strategy):
    """Fewest nodes, or the cheapest set of them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        label = cluster.policy.priceLabel
        self.price = np.ones(cluster.n_nodes, dtype=np.int64) if not label else _prices(cluster, label)
        self.used = np.zeros(cluster.n_nodes, dtype=bool)
        index = {name: n for n, name in enumerate(cluster.nodes.names)}
        for i in cluster.scope.fixed:
            pod = cluster.snapshot.pods[i]
            if occupies(pod):
                self.used[index[pod.spec.nodeName or ""]] = True

    def value(self, counts: Ints) -> int:
        return -int(self.price[self.used | counts.any(axis=0)].sum())

    def bound(self, counts: Ints, *, complete: bool) -> int:
        """Return the value of the nodes in use, which stay, with demand beyond their room covered by fractions of the cheapest others."""
        base = int(self.price[self.used].sum())
        if not complete:
            return -base
        more = 0
        free = np.maximum(self.cluster.free, 0)
        for r in range(len(self.cluster.resources)):
            lack = int((counts.sum(axis=1) * self.cluster.demand[:, r]).sum()) - int(free[self.used, r].sum())
            more = max(more, cheapest(self.price[~self.used], free[~self.used, r], lack))
        return -base - more

    def encode(self, encoding: Encodes) -> Points:
        from kubestow.solver.cpsat.linear_sum import Points

        points, model, cluster = Points(), encoding.model, self.cluster
        for n in range(cluster.n_nodes):
            here = encoding.classes_on(n)
            if self.used[n] or not here:
                points.constant -= int(self.price[n]) if self.used[n] else 0
                continue
            open_ = model.new_bool_var("")
            points.add(open_, -int(self.price[n]), 0, 1)
            variables = [encoding.x[g, n] for g in here]
            rows = [([1] * len(here), max(0, int(cluster.slots[n])))]
            rows += [([int(cluster.demand[g, r]) for g in here], max(0, int(cluster.free[n, r]))) for r in range(len(cluster.resources))]
            for weights, room in rows:
                if any(weights):
                    model.add(encoding.weighted_sum([*variables, open_], [*weights, -room]) <= 0)
        return points


def cheapest(price: Ints, room: Ints, need: int) -> int:
    """Return what nodes cost at least that have so much room together: fractions of the cheapest per unit, rounded up."""
    kinds, number = np.unique(np.stack([price, room], axis=1)[room > 0], axis=0, return_counts=True)
    cost = Fraction(0)
    for (each, space), k in sorted(zip(kinds.tolist(), number.tolist(), strict=True), key=lambda kind: Fraction(*kind[0])):
        if need <= 0:
            break
        cost += each * Fraction(min(need, k * space), space)
        need -= k * space
    return -((-cost.numerator) // cost.denominator)


def occupies(pod: Pod) -> bool:
    """Return whether a pod keeps its node in use: DaemonSet and static pods do not."""
    owner = controller_of(pod)
    return not (is_mirror(pod) or (owner is not None and owner.kind == "DaemonSet"))


def _prices(cluster: Cluster, label: str) -> Ints:
    problems, prices = [], []
    for n, name in enumerate(cluster.nodes.names):
        raw = cluster.nodes.labels(n).get(label)
        try:
            price = quantity.ceil(quantity.parse(raw) * 1000) if raw is not None else None
        except quantity.QuantityError:
            price = None
        if price is None or not 0 <= price <= _DEAREST:
            problems.append(
                f"Node {name}: metadata.labels[{label}]: got {raw!r}, expected a price from 0 to a billion (policy: priceLabel)"
            )
        else:
            prices.append(price)
    if problems:
        raise InputError(problems)
    return np.array(prices, dtype=np.int64)


def choose(cluster: Cluster, name: str) -> Strategy | None:
    """Return the strategy of that name; None for `none`.

    Raises:
        InputError: a node without a readable price, where prices are asked for.
    """
    kinds: dict[str, Callable[[Cluster], Strategy]] = {"spread": Spread, "pack": Pack}
    return kinds[name](cluster) if name in kinds and cluster.n_nodes else None
