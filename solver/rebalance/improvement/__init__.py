"""The search of large clusters for preferences and even utilisation, after construction has swept over the pods.

The entry point is ``search.ImprovementSearch``. This package may import the other packages of ``rebalance`` but
not its entry files, and :mod:`kubestow.solver.search` for annealing and neighbourhoods.
"""
