"""Construction: one module for each goal, which adds accepted steps to a plan.

Enter at ``repair.repair``, ``admit.admit``, ``improve.improve`` and ``drain_and_consolidate``, each on a ``move_builder.MoveBuilder``.
It may import the other packages of ``rebalance`` but not its entry files.
"""
