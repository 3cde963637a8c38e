"""Search of large clusters for preferences and even utilisation, once construction has swept over the pods.

Enter at ``search.ImprovementSearch``. It may import the other packages of ``rebalance`` but not its entry files, and
:mod:`kubestow.solver.search`, whose annealing and neighbourhoods it uses.
"""
