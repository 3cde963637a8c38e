"""The compiled instance of a plan, and the state of a cluster part-way through a plan.

Entry points are ``problem.read_problem`` and ``state.PlanState``, which says which single step is accepted
next. This package may import ``models``, ``kubestow.solver.rules``, ``kubestow.solver.objective``,
``kubestow.solver.bind_order`` and ``kubestow.solver.runtime``, and no other part of ``rebalance``.
"""
