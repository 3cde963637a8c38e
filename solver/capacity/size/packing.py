"""Packing node after node: each node is opened for the most valuable pod, of the brand that can be filled best.

The value of a pod is the cost of its resources at the prices of the relaxation. Sources: minimum bin slack,
Gupta and Ho, doi:10.1080/095372899233038, with the largest item kept; sequential value correction, Belov and
Scheithauer, doi:10.1007/s10288-006-0024-9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.capacity.size.plan import Bought, Local
from kubestow.solver.ortools import cp_model, mathopt

Floats = NDArray[np.float64]
#: Maximum number of brands tried for a node.
MAX_BRANDS = 8
#: Maximum number of classes considered for a node.
MAX_CLASSES = 300
#: Maximum number of one-for-one pod exchanges on a node.
MAX_EXCHANGES = 40


@dataclass
class Stock:
    """Pods to be packed.

    Attributes:
        free: int64[G], pods of classes that may go anywhere.
        by_place: int64[G, places], pods of tied classes by place.
    """

    free: Ints
    by_place: Ints

    def at(self, place: int) -> Ints:
        return np.asarray(self.free + self.by_place[:, place])

    def take(self, g: int, place: int, k: int) -> None:
        if self.by_place[g, place]:
            self.by_place[g, place] -= k
        else:
            self.free[g] -= k

    def any(self) -> bool:
        return bool(self.free.any() or self.by_place.any())


def stock_of(nodes: list[Bought], local: Local) -> Stock:
    """Return the pods of some nodes."""
    size, places = len(local.by_place), int(local.place.max(initial=0)) + 1
    stock = Stock(np.zeros(size, dtype=np.int64), np.zeros((size, places), dtype=np.int64))
    for node in nodes:
        for g, k in node.pods.items():
            if local.by_place[g]:
                stock.by_place[g, local.place[node.brand]] += k
            else:
                stock.free[g] += k
    return stock


def values(local: Local, count: Ints) -> Floats:
    """Return float64[R], the price of a unit of each resource.

    The prices maximise the total charge for all pods, while the room of no brand costs more than the brand.
    """
    demand = (local.demand.T @ count).astype(np.float64)
    scale = np.maximum(local.room.max(axis=0, initial=1), 1).astype(np.float64)
    model = mathopt.Model()
    charge = [model.add_variable(lb=0.0) for _ in scale]
    for b, price in enumerate(local.price.tolist()):
        model.add_linear_constraint(mathopt.fast_sum(local.room[b, r] / scale[r] * v for r, v in enumerate(charge)) <= price / 1e6)
    for r, v in enumerate(charge):
        if not demand[r]:
            model.add_linear_constraint(v <= 0)
    model.maximize(mathopt.fast_sum(demand[r] / scale[r] * v for r, v in enumerate(charge)))
    result = mathopt.solve(model, mathopt.SolverType.GLOP)
    if not result.has_primal_feasible_solution():
        return np.asarray(1.0 / scale)
    prices: Floats = np.array([result.variable_values(v) for v in charge]) / scale * 1e6
    return prices


class Packer:
    """A heuristic that packs a stock into new nodes.

    Attributes:
        rates: float64[R], the price of a unit of each resource.
        rng: Source of noise, so that packings differ.
        over: Returns True when time is up.
    """

    def __init__(self, local: Local, rates: Floats, rng: np.random.Generator, over: Callable[[], bool]) -> None:
        self.local, self.rates, self.rng, self.over = local, rates, rng, over
        self.pod_value: Floats = local.demand @ rates

    def pack(self, stock: Stock, bought: Ints | None = None) -> list[Bought] | None:
        """Return nodes that hold the stock, and use it up; None if some pod has no node, or time is up.

        Args:
            bought: Nodes by brand that count towards limits.
        """
        local, nodes = self.local, []
        counts = np.zeros(len(local.price), dtype=np.int64) if bought is None else bought.copy()
        order = np.argsort(-self.pod_value * self.rng.uniform(0.9, 1.1, len(self.pod_value)), kind="stable")
        while stock.any():
            if self.over():
                return None
            here = stock.free[order] > 0
            there = stock.by_place[order].any(axis=1)
            g = int(order[np.flatnonzero(here | there)[0]])
            node = self._open(g, stock, counts)
            if node is None:
                return None
            for h, k in node.pods.items():
                stock.take(h, int(local.place[node.brand]), k)
            counts[node.brand] += 1
            nodes.append(node)
        return nodes

    def _open(self, g: int, stock: Stock, counts: Ints) -> Bought | None:
        local = self.local
        open_ = local.max_pods[g] > 0
        if local.by_place[g]:
            open_ &= local.place == int(np.flatnonzero(stock.by_place[g])[0])
        brands = [b for b in np.flatnonzero(open_).tolist() if self._allowed(counts, b)]
        if not brands:
            return None
        waiting = self.pod_value @ stock.by_place
        seen: dict[object, int] = {}
        for b in sorted(brands, key=lambda b: -waiting[local.place[b]]):  # of equal brands, the one whose place has the most pods waiting
            seen.setdefault((*local.room[b].tolist(), int(local.price[b])), b)
        full = {b: float(local.price[b]) / max(1.0, float(local.room[b] @ self.rates)) for b in seen.values()}
        chosen = sorted(full, key=lambda b: (full[b], -local.price[b]))[:MAX_BRANDS]
        filled = [Bought(b, self._fill(b, g, stock)) for b in chosen]
        return min(filled, key=self._waste)

    def _allowed(self, counts: Ints, b: int) -> bool:
        counts[b] += 1
        fine = self.local.allowed(counts)
        counts[b] -= 1
        return fine

    def _waste(self, node: Bought) -> float:
        """Return the fraction of a node's price that its pods' value does not cover."""
        price = float(self.local.price[node.brand])
        return 1.0 - float(sum(self.pod_value[g] * k for g, k in node.pods.items())) / price if price else 0.0

    def _available(self, b: int, stock: Stock) -> Ints:
        return np.minimum(stock.at(int(self.local.place[b])), self.local.max_pods[:, b])

    def _fill(self, b: int, g: int, stock: Stock) -> dict[int, int]:
        """Return the pods by class of a greedily filled node: a pod of class g first, then pods of high value that match the room left.

        Args:
            b: Brand of the node.
            g: Class of the first pod, which stays.
            stock: Pods that are available.
        """
        local = self.local
        remaining, free = self._available(b, stock), local.room[b].copy()
        candidates = np.flatnonzero(remaining)
        if len(candidates) > MAX_CLASSES:
            candidates = candidates[self.rng.integers(len(candidates), size=MAX_CLASSES)]
            drawn = np.zeros_like(remaining)
            drawn[candidates] = remaining[candidates]
            drawn[g] = remaining[g]
            remaining, candidates = drawn, np.flatnonzero(drawn)
        scale = 1.0 / np.maximum(local.room[b], 1)
        demand, pod_value = local.demand[candidates], self.pod_value[candidates]
        pods: dict[int, int] = {}
        first = g
        while True:
            pods[g] = pods.get(g, 0) + 1
            free -= local.demand[g]
            remaining[g] -= 1
            if g in local.enemies:
                remaining[list(local.enemies[g])] = 0
            fits = (remaining[candidates] > 0) & (demand <= free).all(axis=1)
            candidates, demand, pod_value = candidates[fits], demand[fits], pod_value[fits]
            if not len(candidates):
                return self._exchange(pods, first, remaining, free)
            g = int(candidates[np.argmax(pod_value * (0.2 + demand @ (free * scale * scale)))])

    def _exchange(self, pods: dict[int, int], first: int, remaining: Ints, free: Ints) -> dict[int, int]:
        """Return ``pods`` (number by class) after exchanges one for one for more valuable ones, and additions, while these gain.

        Args:
            pods: Pods of the node. Updated.
            first: Class of the pod that stays.
            remaining: Available pods of each class, int64[G]. Updated.
            free: Room of the node, int64[R]. Updated.
        """
        local = self.local
        waiting = np.flatnonzero(remaining > 0)
        for _ in range(MAX_EXCHANGES):
            inside = np.array(
                [0, *(g for g in pods if g != first or pods[g] > 1)], dtype=np.int64
            )  # index 0 means no pod: nothing is taken out
            demand, pod_value = local.demand[inside], self.pod_value[inside]
            demand[0], pod_value[0] = 0, 0.0
            residual = free + demand
            gain = np.where(
                (local.demand[waiting][None, :, :] <= residual[:, None, :]).all(axis=2), self.pod_value[waiting] - pod_value[:, None], -1.0
            )
            i, j = np.unravel_index(int(np.argmax(gain)), gain.shape) if gain.size else (0, 0)
            if not gain.size or gain[i, j] <= 1e-9:
                return pods
            new, old = int(waiting[j]), int(inside[i])
            kept = pods.keys() - ({old} if i and pods[old] == 1 else set())
            if new in local.enemies and local.enemies[new] & kept:
                remaining[new] = 0
            else:
                if i:
                    pods[old] -= 1
                    remaining[old] += 1
                    free += local.demand[old]
                    if not pods[old]:
                        del pods[old]
                    waiting = np.union1d(waiting, [old])
                pods[new] = pods.get(new, 0) + 1
                remaining[new] -= 1
                free -= local.demand[new]
            waiting = waiting[remaining[waiting] > 0]
        return pods


def forbid(model: cp_model.CpModel, variables: dict[int, cp_model.IntVar], local: Local) -> None:
    """Keep enemy classes off the same node."""
    concerned = [g for g in variables if g in local.enemies and local.enemies[g] & variables.keys()]
    literals = {}
    for g in concerned:
        literals[g] = model.new_bool_var("")
        model.add(variables[g] == 0).only_enforce_if(~literals[g])
    for g in concerned:
        for h in sorted(local.enemies[g]):
            if h > g and h in literals:
                model.add_bool_or([~literals[g], ~literals[h]])
            elif h == g:
                model.add(variables[g] <= 1)
