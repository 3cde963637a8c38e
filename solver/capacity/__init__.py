"""Questions of capacity: how many fit, which nodes to buy, what survives a failure, whether an upgrade gets through.

Enter at the module of each package that is called like it (``fit.fit``, ``size.size``, ``survive.survive``, ``upgrade.upgrade``). They use
:mod:`kubestow.solver.solve` and :mod:`kubestow.solver.rebalance`, and have their results judged by the checker.
"""
