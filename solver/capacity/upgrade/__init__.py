"""A node-pool upgrade, wave by wave.

Enter at :mod:`kubestow.solver.capacity.upgrade.upgrade`. It may import everything of the solver but the other questions of capacity.
"""
