"""The order of a plan: single steps from the start to an end state, each accepted after those before it.

Enter at ``sequence.order``, which passes greedily, breaks deadlocks by stopovers, and searches small instances exhaustively.
It may import ``problem``, ``target`` and ``waves`` of this package, ``kubestow.solver.rules`` and ``kubestow.solver.bind_order``.
"""
