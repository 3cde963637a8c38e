"""Cheaper plans by neighbourhood search: return a few nodes, and let CP-SAT buy others for their pods.

Each returned node leaves a slot, and the node bought for it is in the same place. So tied classes keep their
numbers by place. Method: Shaw, doi:10.1007/3-540-49481-2_30.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.capacity.size.packing import Floats, Stock, forbid, stock_of
from kubestow.solver.capacity.size.plan import Bought, Local, PurchasePlan, by_brand
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.ortools import cp_model

#: Smallest and largest number of nodes returned at once.
MIN_NODES, MAX_NODES = 2, 8
#: Seconds for one neighbourhood, deterministic or of the clock.
NEIGHBOURHOOD_SECONDS = 1.0
#: Steps without gain after which free capacity may be gathered on few nodes, and the probability of a gathering step then.
IDLE_STEPS_LIMIT, GATHER_PROBABILITY = 8, 0.4
#: Weights in a gathering step: of a millionth of cost, and the divisor of a pod's value.
COST_WEIGHT, VALUE_DIVISOR = 100, 100
#: Maximum number of brands that a slot may have in addition to the brand of its node.
MAX_OTHER_BRANDS = 5


@dataclass
class _Slot:
    """The slot of a returned node in a model.

    Attributes:
        use: The literal of each brand that may be bought for it.
        pods: The number of pods of each class.
    """

    use: dict[int, cp_model.IntVar]
    pods: dict[int, cp_model.IntVar]

    def bought(self, solution: Sequence[int]) -> list[Bought]:
        """Return the node that a solution buys, if any."""
        brands = [b for b, v in self.use.items() if solution[v.index]][:1]
        return [Bought(b, {g: k for g, v in self.pods.items() if (k := solution[v.index])}) for b in brands]


class Improver:
    """A search that improves a plan in place.

    Attributes:
        rates: float64[R], the price of a unit of each resource.
    """

    def __init__(self, local: Local, rates: Floats, cpsat: CpSat, rng: np.random.Generator) -> None:
        self.local, self.rates, self.cpsat, self.rng = local, rates, cpsat, rng
        self.pod_value: Floats = local.demand @ rates
        self._width = dict.fromkeys(range(MIN_NODES, MAX_NODES + 1), 1.0)

    @cached_property
    def _price_step(self) -> int:
        """The greatest common divisor of prices: two purchases of different cost differ by at least this."""
        return gcd(*self.local.price.tolist()) or 1

    def run(self, plan: PurchasePlan, over: Callable[[], bool], on_better: Callable[[], None]) -> int:
        """Improve until ``over``. Return the saving, in millionths."""
        saved = 0
        idle = 0
        while not over() and len(plan.nodes):
            gain = self._step(plan, gather=idle > IDLE_STEPS_LIMIT and self.rng.random() < GATHER_PROBABILITY)
            idle = 0 if gain else idle + 1
            if gain:
                saved += gain
                on_better()
        return saved

    def _step(self, plan: PurchasePlan, *, gather: bool) -> int:
        sizes = list(self._width)
        weights = np.array(list(self._width.values()))
        size = int(self.rng.choice(sizes, p=weights / weights.sum()))
        chosen = self._choose(plan, min(size, len(plan.nodes)))
        nodes = [plan.nodes[i] for i in chosen]
        gone = set(chosen)
        others = by_brand([n for i, n in enumerate(plan.nodes) if i not in gone], len(self.local.price))
        bought = self._buy(nodes, others, gather=gather)
        self._width[size] = max(0.2, 0.9 * self._width[size] + (2.0 if bought is not None else 0.0))
        if bought is None:
            return 0
        gain = sum(int(self.local.price[n.brand]) for n in nodes) - sum(int(self.local.price[n.brand]) for n in bought)
        plan.nodes = [n for i, n in enumerate(plan.nodes) if i not in gone] + bought
        return gain

    def _choose(self, plan: PurchasePlan, size: int) -> list[int]:
        """Return ``size`` random nodes of a plan as indices, ascending. Nodes that waste more are drawn with higher probability."""
        waste = np.array([self._waste(node) for node in plan.nodes])
        weights = np.maximum(waste, 0) + 1e-3 * float(self.local.price.mean())
        return sorted(self.rng.choice(len(plan.nodes), size, replace=False, p=weights / weights.sum()).tolist())

    def _waste(self, node: Bought) -> float:
        return float(self.local.price[node.brand]) - float(sum(self.pod_value[g] * k for g, k in node.pods.items()))

    def _buy(self, nodes: list[Bought], others: Ints, *, gather: bool) -> list[Bought] | None:
        """Return cheaper nodes for the pods of some nodes; None if none were found. With ``gather``, they may cost the same while free
        capacity is gathered on few nodes for later steps."""
        local = self.local
        before = sum(int(local.price[n.brand]) for n in nodes)
        stock = stock_of(nodes, local)
        classes = np.flatnonzero(stock.free + stock.by_place.sum(axis=1)).tolist()
        least = float(sum(self.pod_value[g] * k for n in nodes for g, k in n.pods.items()))
        if not gather and before - least < self._price_step:
            return None  # nothing to gain
        model = cp_model.CpModel()
        brands = [self._brands(n) for n in nodes]
        slots = [_Slot({b: model.new_bool_var("") for b in each}, {}) for each in brands]
        for slot in slots:
            self._fill(model, slot, stock)
        self._all(model, classes, [slot.pods for slot in slots], [int(local.place[each[0]]) for each in brands], stock)
        self._allowed(model, [slot.use for slot in slots], others)
        cost = cp_model.LinearExpr.sum([int(local.price[b]) * v for slot in slots for b, v in slot.use.items()])
        if gather:
            model.add(cost <= before)
            self._gather(model, nodes, slots, cost)
        else:
            model.add(cost <= before - 1)
            model.minimize(cost)
        answer = self.cpsat.run(model, NEIGHBOURHOOD_SECONDS, quick=True)
        return None if answer.solution is None else [node for slot in slots for node in slot.bought(answer.solution)]

    def _fill(self, model: cp_model.CpModel, slot: _Slot, stock: Stock) -> None:
        """Add the pods that a slot may take, and the constraints on its room."""
        local, brands = self.local, list(slot.use)
        model.add_at_most_one(slot.use.values())
        place = int(local.place[brands[0]])
        for g in np.flatnonzero(stock.free + stock.by_place.sum(axis=1)).tolist():
            there = int(stock.by_place[g, place] if local.by_place[g] else stock.free[g])
            upper = int(min(there, max(int(local.max_pods[g, b]) for b in brands)))
            if upper:
                v = slot.pods[g] = model.new_int_var(0, upper, "")
                for b in brands:
                    if local.max_pods[g, b] < upper:
                        model.add(v <= int(local.max_pods[g, b])).only_enforce_if(slot.use[b])
        for r in range(local.demand.shape[1]):
            terms = [int(local.demand[g, r]) * v for g, v in slot.pods.items() if local.demand[g, r]]
            if terms:
                room = cp_model.LinearExpr.sum([int(local.room[b, r]) * v for b, v in slot.use.items()])
                model.add(cp_model.LinearExpr.sum(terms) <= room)
        forbid(model, slot.pods, local)

    def _gather(self, model: cp_model.CpModel, nodes: list[Bought], slots: list[_Slot], cost: cp_model.LinearExpr) -> None:
        """Prefer pods on the first slots, and hint the nodes that were returned."""
        value = [(int(self.pod_value[g] / VALUE_DIVISOR) * (j + 1), v) for j, slot in enumerate(slots) for g, v in slot.pods.items()]
        model.minimize(cp_model.LinearExpr.weighted_sum([v for _, v in value], [w for w, _ in value]) + COST_WEIGHT * cost)
        for node, slot in zip(nodes, slots, strict=True):
            for b, v in slot.use.items():
                model.add_hint(v, b == node.brand)
            for g, v in slot.pods.items():
                model.add_hint(v, node.pods.get(g, 0))

    def _brands(self, node: Bought) -> list[int]:
        """Return the brands that may replace a node's, its own first."""
        local = self.local
        others = np.flatnonzero(local.place == local.place[node.brand])
        rate = local.price[others] / np.maximum(1.0, local.room[others] @ self.rates)
        order = others[np.lexsort((self.rng.random(len(others)), np.round(rate, 2)))]
        return [node.brand, *[b for b in order.tolist() if b != node.brand][:MAX_OTHER_BRANDS]]

    def _all(
        self, model: cp_model.CpModel, classes: list[int], here: list[dict[int, cp_model.IntVar]], places: list[int], stock: Stock
    ) -> None:
        """Require that every pod has a node, and that pods of tied classes stay in their places."""
        for g in classes:
            if not self.local.by_place[g]:
                model.add(cp_model.LinearExpr.sum([v[g] for v in here if g in v]) == int(stock.free[g]))
                continue
            for place in np.flatnonzero(stock.by_place[g]).tolist():
                inside = [v[g] for v, p in zip(here, places, strict=True) if g in v and p == place]
                model.add(cp_model.LinearExpr.sum(inside) == int(stock.by_place[g, place]))

    def _allowed(self, model: cp_model.CpModel, use: list[dict[int, cp_model.IntVar]], others: Ints) -> None:
        """Require that the purchase, with the nodes that stay, is allowed."""
        allowed = self.local.allowed
        existing = np.bincount(allowed.shape, weights=others, minlength=len(allowed.max_nodes)).astype(np.int64)
        pairs = [(int(allowed.shape[b]), v) for literals in use for b, v in literals.items()]
        shapes = sorted({shape for shape, _ in pairs})
        for shape in shapes:
            if allowed.max_nodes[shape] < existing[shape] + len(use):
                model.add(cp_model.LinearExpr.sum([v for s, v in pairs if s == shape]) <= int(allowed.max_nodes[shape] - existing[shape]))
        if (allowed.excess > 0).any():
            more = cp_model.LinearExpr.weighted_sum([v for _, v in pairs], [int(allowed.excess[s]) for s, _ in pairs])
            model.add(more <= -int(allowed.excess @ existing))
        if allowed.kinds is not None:
            kinds = []
            for shape in [s for s in shapes if not existing[s]]:
                literal = model.new_bool_var("")
                for s, v in pairs:
                    if s == shape:
                        model.add_implication(v, literal)
                kinds.append(literal)
            model.add(cp_model.LinearExpr.sum(kinds) <= allowed.kinds - int(np.count_nonzero(existing)))
