"""Cuts for classes that attract each other and repel themselves in the same domains.

A plane above every integer point of a star bounds attraction and repulsion together. See docs/algorithms/exact.md
(Star cuts)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from kubestow.solver.ortools import pywraplp

SCALE = 16  #: Coefficients are rounded up to multiples of 1 / SCALE points.
MAX_PODS = 400  #: Stars with more pods of a class in a domain keep the separate relaxations.
MAX_INTEGER_POINTS = 40_000  #: Stars with more integer points keep them as well.
SAMPLED_VALUES = 24  #: Approximate number of values per class in the linear program. The exact step uses all values.


@dataclass(frozen=True)
class Leaf:
    """A class attracted by the centre.

    Attributes:
        weight: Points per pair with the centre, > 0.
        repulsion: Points lost per ordered pair of its own pods, ≥ 0.
        high: Maximum pods in one domain.
        total: Pods over all domains.
    """

    weight: int
    repulsion: int
    high: int
    total: float


@dataclass(frozen=True)
class Plane:
    """The cut SCALE · points ≤ alpha · a + Σ beta · b + gamma, valid in every domain.

    In a domain, a is the number of the centre's pods, and b that of each leaf's.
    """

    alpha: int
    beta: tuple[int, ...]
    gamma: int


def planes(repulsion: int, high: int, total: int, leaves: Sequence[Leaf], domains: int) -> list[Plane]:
    """Return cuts on the points of a centre and its leaves in each domain. Empty if there are too many combinations of pods.

    Each is as low as possible at one point: all pods spread over the domains, half of the centre's, or half of the leaves'.

    Args:
        repulsion: Points lost per ordered pair of the centre's own pods.
        high: Maximum pods of the centre in one domain.
        total: Pods of the centre over all domains.
        leaves: The classes that the centre attracts.
        domains: Number of domains.
    """
    if (
        high > MAX_PODS
        or any(leaf.high > MAX_PODS for leaf in leaves)
        or (high + 1) * sum(leaf.high + 1 for leaf in leaves) > MAX_INTEGER_POINTS
    ):
        return []
    found = []
    for share, shares in ((1.0, 1.0), (0.5, 1.0), (1.0, 0.5)):
        scaled = [replace(leaf, total=leaf.total * shares) for leaf in leaves]
        plane = _plane(repulsion, high, total * share, scaled, domains)
        if plane is not None and plane not in found:
            found.append(plane)
    return found


def _plane(repulsion: int, high: int, total: float, leaves: Sequence[Leaf], domains: int) -> Plane | None:
    solver = pywraplp.Solver.CreateSolver("GLOP")
    infinity = solver.infinity()
    alpha = solver.NumVar(-infinity, infinity, "")
    gamma = solver.NumVar(-infinity, infinity, "")
    betas = [solver.NumVar(-infinity, infinity, "") for _ in leaves]
    for a in _sample(high):
        # best[i] ≥ max over b of (w·a - β)·b - s·b(b-1), at the integers that can be the maximum
        best = [solver.NumVar(-infinity, infinity, "") for _ in leaves]
        for leaf, beta, points in zip(leaves, betas, best, strict=True):
            for b in _sample(leaf.high) if leaf.repulsion else (0, leaf.high):
                solver.Add(points + b * beta >= b * leaf.weight * a - leaf.repulsion * b * (b - 1))
        solver.Add(alpha * a + gamma - sum(best) >= -repulsion * a * (a - 1))
    solver.Minimize(alpha * total + gamma * domains + sum(beta * leaf.total for beta, leaf in zip(betas, leaves, strict=True)))
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        return None
    return _exact(
        repulsion, high, leaves, ceil(alpha.solution_value() * SCALE - 1e-6), [ceil(b.solution_value() * SCALE - 1e-6) for b in betas]
    )


def _sample(high: int) -> list[int]:
    """Return up to about SAMPLED_VALUES values from 0 to high: all small ones, and fewer large ones."""
    step = max(1, high // SAMPLED_VALUES)
    return sorted({*range(0, high + 1, step), *range(min(high, SAMPLED_VALUES // 2) + 1), high})


def _exact(repulsion: int, high: int, leaves: Sequence[Leaf], alpha: int, betas: Sequence[int]) -> Plane:
    """Return the plane with these coefficients and the least integer gamma that makes it valid, computed in integers.

    The linear program only gave the coefficients.
    """
    gamma = max(
        -SCALE * repulsion * a * (a - 1)
        - alpha * a
        + sum(
            max(
                SCALE * (leaf.weight * a * b - leaf.repulsion * b * (b - 1)) - beta * b
                for b in (range(leaf.high + 1) if leaf.repulsion else (0, leaf.high))
            )
            for leaf, beta in zip(leaves, betas, strict=True)
        )
        for a in range(high + 1)
    )
    return Plane(alpha, tuple(betas), gamma)
