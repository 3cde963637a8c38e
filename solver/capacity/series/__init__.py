"""Sizing for several snapshots of one cluster: one set of nodes that suffices for each snapshot, and the snapshots that determine it.

Enter at :mod:`kubestow.solver.capacity.series.series` (``size_series``). The package may import
:mod:`kubestow.solver.capacity.size` and everything that package may import.
"""
