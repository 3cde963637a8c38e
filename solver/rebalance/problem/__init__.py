"""The compiled instance of a plan, and the state of a cluster on its way through one.

Enter at ``problem.read_problem`` and ``state.PlanState``, which says which single step is accepted next.
It may import ``models``, ``kubestow.solver.rules``, ``kubestow.solver.objective``, ``kubestow.solver.bind_order`` and
``kubestow.solver.runtime``, nothing else of ``rebalance``.
"""
