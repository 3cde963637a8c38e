"""Sums of variables in a domain, and products of such sums, in a CP-SAT model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.ortools import cp_model

Pair = frozenset[frozenset[int]]
UNARY_LIMIT = 12  #: Products whose smaller side can be larger use CP-SAT's own multiplication.


class DomainSum:
    """A weighted sum of variables in one domain, as one variable; ``high``: its largest value; ``classes``: classes summed."""

    def __init__(self, model: cp_model.CpModel, classes: frozenset[int], parts: Sequence[tuple[cp_model.IntVar, int]], high: int) -> None:
        self.model, self.classes = model, classes
        self.variables = [variable for variable, _ in parts]
        self.parts = {variable.index: factor for variable, factor in parts}
        self.high = high
        if len(parts) == 1 and parts[0][1] == 1:
            self.variable = parts[0][0]
        elif parts:
            self.variable = model.new_int_var(0, high, "")
            model.add(cp_model.LinearExpr.weighted_sum(self.variables, [factor for _, factor in parts]) == self.variable)
        self.steps: list[cp_model.IntVar] = []

    def units(self) -> list[cp_model.IntVar]:
        """Return the sum in unary, created once: the k-th literal is true if the sum is at least k."""
        if not self.steps and self.high <= 1:
            self.steps = [self.variable]
        elif not self.steps:
            self.steps = [self.model.new_bool_var("") for _ in range(self.high)]
            self.model.add(cp_model.LinearExpr.sum(self.steps) == self.variable)
            for first, second in pairwise(self.steps):
                self.model.add_implication(second, first)
        return self.steps


@dataclass
class DomainGraph:
    """Attractions and repulsions in one domain, by the class sets involved. ``pulls``: weights and variables of products;
    ``weights``: maximum points of one pair of pods."""

    sums: dict[frozenset[int], DomainSum] = field(default_factory=dict)
    pulls: dict[Pair, list[tuple[int, cp_model.IntVar]]] = field(default_factory=dict)
    weights: dict[Pair, int] = field(default_factory=dict)
    repels: dict[frozenset[int], tuple[int, cp_model.IntVar]] = field(default_factory=dict)

    def pull(self, pair: Pair, weight: int, paid: Sequence[cp_model.IntVar]) -> None:
        self.weights[pair] = self.weights.get(pair, 0) + weight
        self.pulls.setdefault(pair, []).extend((weight, variable) for variable in paid)


def product(a: DomainSum, b: DomainSum, weight: int, points: Points, graph: DomainGraph | None = None) -> None:
    """Add weight · a · b (a² for equal sums), and record it in ``graph``."""
    graph = graph or DomainGraph()
    graph.sums[a.classes] = a
    graph.sums[b.classes] = b
    if a.parts == b.parts:
        square = _square(a, weight, points)
        if square is not None and weight < 0 and a.classes not in graph.repels:
            graph.repels[a.classes] = (-weight, square)
    elif weight > 0 and not a.parts.keys() & b.parts.keys():
        small, large = (a, b) if a.high <= b.high else (b, a)
        paid = _attract(small, large, weight, points)
        graph.pull(frozenset((a.classes, b.classes)), weight, paid)
    else:
        product = a.model.new_int_var(0, a.high * b.high, "")
        a.model.add_multiplication_equality(product, [a.variable, b.variable])
        points.add(product, weight, 0, a.high * b.high)


def _square(a: DomainSum, weight: int, points: Points) -> cp_model.IntVar | None:
    """Add weight · a² and return the square (None: it is a). It is convex, so for costs its tangents at neighbouring
    integers are exact."""
    model, high = a.model, a.high
    if high == 1:
        points.add(a.variable, weight, 0, 1)
        return None
    square = model.new_int_var(0, high * high, "")
    if weight > 0:
        model.add_multiplication_equality(square, [a.variable, a.variable])
    else:
        for k in range(high):
            model.add(square >= (2 * k + 1) * a.variable - k * (k + 1))
    points.add(square, weight, 0, high * high)
    return square


def _attract(small: DomainSum, large: DomainSum, weight: int, points: Points) -> list[cp_model.IntVar]:
    """Add the reward weight · small · large, with ``small`` in unary: unit k pays ``large`` if it is set, otherwise 0."""
    model = small.model
    if small.high > UNARY_LIMIT:
        product = model.new_int_var(0, small.high * large.high, "")
        model.add_multiplication_equality(product, [small.variable, large.variable])
        points.add(product, weight, 0, small.high * large.high)
        return [product]
    parts = []
    for unit in small.units():
        paid = model.new_int_var(0, large.high, "")
        model.add(paid <= large.variable)
        model.add(paid <= large.high * unit)
        points.add(paid, weight, 0, large.high)
        parts.append(paid)
    return parts
