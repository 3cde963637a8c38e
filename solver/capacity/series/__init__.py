"""What to buy for several snapshots of one cluster: one set of nodes that does for each of them, and the snapshots that decide it.

Enter at :mod:`kubestow.solver.capacity.series.series` (``size_series``). It may import :mod:`kubestow.solver.capacity.size` and what that
may.
"""
