"""The upgrade of a node pool, wave by wave.

Enter at :mod:`kubestow.solver.capacity.upgrade.upgrade`. The package may import all of the solver except the
other capacity questions.
"""
