"""The tie-break among placements with equal preferences.

`spread` minimises Σ over nodes and {cpu, memory} of f(u), where u is the utilisation in thousandths of allocatable,
rounded up. f equals u² up to 10, at multiples of 10 up to 100 and at multiples of 100 beyond, with linear interpolation.
So f is convex and integral, even for almost idle nodes, and a node at 90 % costs as much as nine at 30 %. u is capped at
a thousand times allocatable, which only overcommitted nodes reach.

`pack` minimises the number of nodes that run pods other than DaemonSet and static pods, or the sum of their prices in
thousandths.

Values are negative costs, so that every tier is maximised."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import gcd

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.kube import quantity
from kubestow.models.kube.objects import Pod, controller_of
from kubestow.models.snapshot.scope import is_mirror
from kubestow.models.snapshot.snapshot import InputError
from kubestow.solver.cpsat.linear_sum import MAX_MODEL_SUM, Encodes, Points
from kubestow.solver.objective.sparse_placement import cells

#: (start, width) of the linear pieces of f, in thousandths. Each width is a multiple of the previous one.
PIECES = ((0, 1), (10, 10), (100, 100))
#: Thousandths. Utilisation is capped here, a thousand times allocatable, so that sums of squares fit into 64 bits.
MAX_UTILISATION = 1_000_000
#: Nodes with less memory count as nodes without memory: their utilisation could exceed 64 bits.
MIN_MEMORY_BYTES = 16 * 2**20
#: Thousandths. Sums of prices over millions of nodes fit into 64 bits.
_MAX_PRICE = 10**12
_COLUMNS = 2  # cpu and memory are the first resources


def bend(u: Ints) -> Ints:
    """Return f(u), elementwise."""
    width = np.select([u < PIECES[1][0], u < PIECES[2][0]], [PIECES[0][1], PIECES[1][1]], PIECES[2][1])
    low = u - u % width
    return np.asarray(low * low + (2 * low + width) * (u - low), dtype=np.int64)


def kinks(first: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the linear pieces (from, to) of f that overlap the range from ``first`` to ``end``, all in thousandths.

    The first and the last piece may reach beyond the range.
    """
    low = first
    while low < end:
        width = next(width for start, width in reversed(PIECES) if low >= start)
        low -= low % width
        yield low, low + width
        low += width


class Strategy(ABC):
    """A tie-break: the tier that the document calls `strategy`."""

    @abstractmethod
    def value(self, counts: Ints) -> int:
        """Return the value of a placement int64[G, N]."""

    @abstractmethod
    def bound(self, counts: Ints, *, complete: bool) -> int:
        """Return an upper bound on the value of every placement of the same pods.

        Args:
            counts: A placement, int64[G, N].
            complete: True if it places all pods. Otherwise the bound holds for any choice of pods.
        """

    @abstractmethod
    def encode(self, encoding: Encodes) -> Points:
        """Return the value as a linear expression over a model.

        Raises:
            OverflowError: Sums exceed what CP-SAT can represent.
        """

    def pod_costs(self, counts: Ints) -> PodCosts | None:
        """Return the costs of one more pod in a placement, int64[G, N]. None if moving single pods cannot improve the value."""
        return None


class SpreadStrategy(Strategy):
    """Even utilisation.

    Attributes:
        used: Usage by fixed pods, int64[N, 2].
        demand: Usage by a pod of each class, int64[G, 2]: its request, or an assumed value for containers without
            requests.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        width = min(_COLUMNS, len(cluster.resources))
        whole = cluster.allocatable[:, :width]
        self.total = np.where(whole < np.array([1, MIN_MEMORY_BYTES])[:width], 0, whole)
        more = cluster.fixed_supposed[:, :width]
        self.used = np.minimum(np.maximum(whole - cluster.free[:, :width], 0), np.iinfo(np.int64).max - more) + more
        self.demand = cluster.demand[:, :width] + cluster.supposed[:, :width]

    def _load(self, used: Ints, total: Ints | None = None) -> Ints:
        """Return int64[N, 2]: utilisation in thousandths, rounded up; 0 on nodes without the resource. ``total``: capacity
        of other nodes."""
        total = self.total if total is None else total
        safe = np.maximum(total, 1)
        if int(safe.max(initial=1)) >= 2**53 or int(used.max(initial=0)) >= 2**62:  # products could exceed 64 bits
            safe, used = safe.astype(object), used.astype(object)
        load = np.minimum(used // safe, MAX_UTILISATION) * 1000 - (-(used % safe) * 1000) // safe
        return np.asarray(np.where(total > 0, np.minimum(load, MAX_UTILISATION), 0), dtype=np.int64)

    def value(self, counts: Ints) -> int:
        return -int(bend(self._load(self.usage(counts))).sum())

    def usage(self, counts: Ints) -> Ints:
        """Return int64[N, 2]: the usage of each node in a placement int64[G, N]."""
        found: Ints = self.used.copy()
        rows, nodes = cells(counts)  # few pairs hold pods: a matrix product takes far longer
        more = counts[rows, nodes][:, None] * self.demand[rows]
        for r in range(found.shape[1]):
            np.add.at(found[:, r], nodes, more[:, r])
        return found

    def bound(self, counts: Ints, *, complete: bool) -> int:
        """Return an upper bound: the value if the demand could be spread over all nodes in fractions.

        If not all pods are placed, or a node reaches MAX_UTILISATION, the bound is the value of the fixed pods alone.

        By Lagrangian duality, any price per unit of demand gives a bound. The price used is the one at which fractional
        spreading ends.
        """
        best = -int(bend(self._load(self.used)).sum())
        if not complete or (self._load(self.usage(counts)) >= MAX_UTILISATION).any():
            return best
        total = 0
        for r in range(self.demand.shape[1]):
            total += self._poured(self.used[:, r], self.total[:, r], int((counts.sum(axis=1) * self.demand[:, r]).sum()))
        return min(best, -total)

    def _poured(self, used: Ints, total: Ints, demand: int) -> int:
        """Return a lower bound on Σ f of one resource over the nodes, with the demand spread in fractions; rounded up.

        Args:
            used: Usage by fixed pods, int64[N].
            total: Allocatable amount, int64[N]. Nodes without the resource do not count.
            demand: Usage of all placed pods together.
        """
        here = total > 0
        if not here.any():
            return 0
        kinds, number = np.unique(np.stack([used[here], total[here]], axis=1), axis=0, return_counts=True)
        nodes = [(int(u), int(t), int(k)) for (u, t), k in zip(kinds, number, strict=True)]
        segments: list[tuple[float, float, Fraction]] = []  # (slope, room, exact slope); floats only find the price
        for u, t, k in nodes:
            at = Fraction(1000 * u, t)
            for low, high in kinks(int(at), 1000):
                room = Fraction(t, 1000) * (high - max(at, Fraction(low)))
                segments.append(((low + high) / t, float(room) * k, Fraction((low + high) * 1000, t)))
        segments.sort(key=lambda segment: segment[0])
        remaining = float(demand)
        price = Fraction(0)
        for _, width, slope in segments:
            price = slope
            remaining -= width
            if remaining <= 0:
                break
        cost = price * demand + sum(k * self._least_cost(u, t, price) for u, t, k in nodes)
        return -((-cost.numerator) // cost.denominator)

    @staticmethod
    def _least_cost(used: int, total: int, price: Fraction) -> Fraction:
        """Return min over y ≥ 0 of f(utilisation) - price · y, for added demand y. It is at the start or at a kink.

        Args:
            used: Usage of the node before.
            total: Its allocatable amount.
            price: Cost of f per unit of demand.
        """
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
        """Return int64[N]: the cost of each node at a given usage (int64[N, 2])."""
        return np.asarray(bend(self._load(np.maximum(used, 0))).sum(axis=1), dtype=np.int64)

    def cost_on(self, n: int, used: Ints) -> Ints:
        """Return int64[K]: the cost of node n at each of several usages (int64[K, 2])."""
        return np.asarray(bend(self._load(used, self.total[n])).sum(axis=1), dtype=np.int64)

    def _supposed(self, n: int, r: int, classes: Sequence[int]) -> int:
        """Return an upper bound on the assumed usage of resource r, beyond requests, by pods of some classes on node n.

        Only pod slots limit their number.
        """
        chosen, cluster = list(classes), self.cluster
        pods = min(int(cluster.count[chosen].sum()), max(0, int(cluster.slots[n])))
        return pods * int(cluster.supposed[chosen, r].max(initial=0))

    def encode(self, encoding: Encodes, unmoved: Ints | None = None, fullest: Ints | None = None) -> Points:
        """Return the value as a linear expression, with utilisation above its row and cost above the tangents of f.

        Args:
            unmoved: Pods that the model does not move, int64[G, N].
            fullest: Maximum usage of each node, integers [N, 2], without assumed usage of arriving pods. Given if pods
                may request more than nodes have room for.
        """
        points, model = Points(), encoding.model
        usage = self.used if unmoved is None else self.used + unmoved.T @ self.demand
        before = usage if fullest is None else fullest
        supposed = self.cluster.fixed_supposed if unmoved is None else self.cluster.fixed_supposed + unmoved.T @ self.cluster.supposed
        for n, r in np.argwhere(self.total > 0).tolist():
            total, used = int(self.total[n, r]), int(usage[n, r])
            now = min(-(-1000 * used // total), MAX_UTILISATION)
            lowest = int(bend(np.array([now]))[0])
            asking = [g for g in encoding.classes_on(n) if self.demand[g, r]]
            if not asking or (now == MAX_UTILISATION and fullest is None):  # no pod with demand can arrive at such a node
                points.constant -= lowest
                continue
            more = -(-1000 * (self._supposed(n, r, asking) + int(supposed[n, r])) // total)
            upper = max(now, 1000, -(-1000 * int(before[n, r]) // total)) + more
            if more and upper > MAX_UTILISATION:
                raise OverflowError("utilisation beyond what CP-SAT can sum")
            load = model.new_int_var(now, upper, "")
            # Divide by the common factor of demands and total. Usage is rounded up, which changes nothing for integers.
            unit = gcd(total, *(1000 * int(self.demand[g, r]) for g in asking))
            if total // unit * upper > MAX_MODEL_SUM:
                raise OverflowError("utilisation beyond what CP-SAT can sum")
            weights = [1000 * int(self.demand[g, r]) // unit for g in asking]
            requested = encoding.weighted_sum([encoding.x[g, n] for g in asking], weights)
            model.add(requested - -1000 * used // unit <= total // unit * load)
            highest = int(bend(np.array([upper]))[0])
            cost = model.new_int_var(lowest, highest, "")
            for low, high in _tangents(now, upper):
                model.add(cost >= (low + high) * load - low * high)
            points.add(cost, -1, lowest, highest)
        return points


class PodCosts:
    """Costs of one more pod in a changing placement; ``used``: usage of each node, int64[N, 2]."""

    def __init__(self, balance: SpreadStrategy, counts: Ints) -> None:
        self.balance = balance
        self.used = balance.usage(counts)

    def put(self, g: int, n: int, k: int) -> None:
        """Add k pods of class g to node n."""
        self.used[n] += k * self.balance.demand[g]

    def of(self, g: int) -> Ints:
        """Return int64[N]: the cost of one more pod of class g on each node."""
        return self.balance.cost(self.used + self.balance.demand[g]) - self.balance.cost(self.used)


def _tangents(first: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the linear pieces (from, to) of f whose tangents bound the cost, in thousandths.

    Up to 1000 these are all pieces, beyond it fewer and fewer. That only loosens the bound.
    """
    yield from kinks(first, min(end, 1000))
    width = PIECES[-1][1]
    low = begin = max(1000, first) // width * width
    while low < end:
        yield low, low + width
        low += width * max(1, (low - begin) // (32 * width))


class PackStrategy(Strategy):
    """Fewest nodes, or cheapest set of nodes."""

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
        """Return an upper bound: the value if the used nodes stay, and fractions of the cheapest others take the remaining demand.

        If not all pods are placed, only the used nodes count.
        """
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
    """Return a lower bound on the cost of nodes with the needed room: fractions of the cheapest per unit, rounded up.

    Args:
        price: Price of each node that can be added, int64[N].
        room: Room of each such node in one resource, int64[N].
        need: Room that is needed.
    """
    kinds, number = np.unique(np.stack([price, room], axis=1)[room > 0], axis=0, return_counts=True)
    cost = Fraction(0)
    for (each, space), k in sorted(zip(kinds.tolist(), number.tolist(), strict=True), key=lambda kind: Fraction(*kind[0])):
        if need <= 0:
            break
        cost += each * Fraction(min(need, k * space), space)
        need -= k * space
    return -((-cost.numerator) // cost.denominator)


def occupies(pod: Pod) -> bool:
    """Return whether a pod keeps its node in use. DaemonSet and static pods do not."""
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
        if price is None or not 0 <= price <= _MAX_PRICE:
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
        InputError: A node has no readable price, and the policy uses prices.
    """
    kinds: dict[str, Callable[[Cluster], Strategy]] = {"spread": SpreadStrategy, "pack": PackStrategy}
    return kinds[name](cluster) if name in kinds and cluster.n_nodes else None
