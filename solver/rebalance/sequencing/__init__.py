"""The order of a plan: single steps from the start to an end state, each accepted after the earlier ones.

The entry point is ``sequence.order``. It passes greedily, breaks deadlocks by stopovers, and searches small
instances exhaustively. This package may import ``problem``, ``target`` and ``waves`` of ``rebalance``,
``kubestow.solver.rules`` and ``kubestow.solver.bind_order``.
"""
