"""Construction heuristics: one module per goal; each adds accepted steps to a plan.

Entry points are ``repair.repair``, ``admit.admit``, ``improve.improve`` and ``drain_and_consolidate``. Each
works on a ``move_builder.MoveBuilder``. This package may import the other packages of ``rebalance`` but not its
entry files.
"""
