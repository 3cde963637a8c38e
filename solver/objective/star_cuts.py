"""Cuts for classes that attract each other and repel themselves in the same domains.

Relaxed one by one, a product and the convex cost beside it let fractions of pods meet everywhere at no cost. Taken together they are
bounded: for a centre with a pods in a domain and leaves with b_i, the points w_i·a·b_i - s·a(a-1) - s_i·b_i(b_i-1) never exceed a plane
α·a + Σ β_i·b_i + γ that lies above every integer point. The plane that is lowest at the classes' totals over all domains is found by a
small linear program; summed over the domains it bounds the whole star at once. Its coefficients are rounded up, so the cut is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from ortools.linear_solver import pywraplp

#: Fractions of a point that coefficients are rounded up to.
SCALE = 16
#: Larger centres are left to the separate relaxations.
MOST = 400
#: And stars with more whole points than this.
POINTS = 40_000
#: The linear program looks at about so many values a class; the exact step looks at all.
SAMPLE = 24


@dataclass(frozen=True)
class Leaf:
    """``weight`` > 0: points per pair with the centre; ``repulsion`` ≥ 0: points lost per ordered pair among themselves;
    ``high``: the most in one domain; ``total``: over all domains."""

    weight: int
    repulsion: int
    high: int
    total: int


@dataclass(frozen=True)
class Plane:
    """SCALE · points ≤ alpha · a + Σ beta · b + gamma in every domain."""

    alpha: int
    beta: tuple[int, ...]
    gamma: int


def planes(repulsion: int, high: int, total: int, leaves: Sequence[Leaf], domains: int) -> list[Plane]:
    """Planes that are lowest at the totals, and where only a part of the centre or of the leaves takes part."""
    if high > MOST or any(leaf.high > MOST for leaf in leaves) or (high + 1) * sum(leaf.high + 1 for leaf in leaves) > POINTS:
        return []
    found = []
    for share, shares in ((1.0, 1.0), (0.5, 1.0), (1.0, 0.5)):
        plane = _plane(repulsion, high, total * share, leaves, [leaf.total * shares for leaf in leaves], domains)
        if plane is not None and plane not in found:
            found.append(plane)
    return found


def _plane(repulsion: int, high: int, total: float, leaves: Sequence[Leaf], totals: Sequence[float], domains: int) -> Plane | None:
    solver = pywraplp.Solver.CreateSolver("GLOP")
    infinity = solver.infinity()
    alpha = solver.NumVar(-infinity, infinity, "")
    gamma = solver.NumVar(-infinity, infinity, "")
    betas = [solver.NumVar(-infinity, infinity, "") for _ in leaves]
    for a in _sample(high):
        # best[i] ≥ max over b of (w·a - β)·b - s·b(b-1): its points at the whole numbers that can be the maximum
        best = [solver.NumVar(-infinity, infinity, "") for _ in leaves]
        for leaf, beta, points in zip(leaves, betas, best, strict=True):
            for b in _sample(leaf.high) if leaf.repulsion else (0, leaf.high):
                solver.Add(points + b * beta >= b * leaf.weight * a - leaf.repulsion * b * (b - 1))
        solver.Add(alpha * a + gamma - sum(best) >= -repulsion * a * (a - 1))
    solver.Minimize(alpha * total + gamma * domains + sum(beta * t for beta, t in zip(betas, totals, strict=True)))
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        return None
    return _exact(
        repulsion, high, leaves, ceil(alpha.solution_value() * SCALE - 1e-6), [ceil(b.solution_value() * SCALE - 1e-6) for b in betas]
    )


def _sample(high: int) -> list[int]:
    """0 to high, at most SAMPLE + 1 of them: small numbers all, large ones thinned out."""
    step = max(1, high // SAMPLE)
    return sorted({*range(0, high + 1, step), *range(min(high, SAMPLE // 2) + 1), high})


def _exact(repulsion: int, high: int, leaves: Sequence[Leaf], alpha: int, betas: Sequence[int]) -> Plane:
    """The least whole gamma that makes the plane valid, by integers alone: the linear program is only asked for a direction."""
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
