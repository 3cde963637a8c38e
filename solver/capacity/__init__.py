"""Capacity questions: how many replicas fit, which nodes to buy, which failures a cluster survives, whether an upgrade completes.

Enter at the module of each package that has the package's name (``fit.fit``, ``size.size``,
``survive.survive``, ``upgrade.upgrade``). They use :mod:`kubestow.solver.solve` and
:mod:`kubestow.solver.rebalance`. The checker judges every result.
"""
