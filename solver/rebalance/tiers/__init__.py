"""The objective of a plan: one class per kind of tier, with its value in an end state, its bound, and its model
sum.

The entry point is ``objective.PlanObjective``. A new kind of tier is a class here and a line in
``objective.tiers``. This package may import ``problem`` and ``target`` of ``rebalance``, their dependencies,
and ``kubestow.solver.bounds``.
"""
