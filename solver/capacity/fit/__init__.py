"""The most replicas of templates that fit, with the constraint that ends it.

Enter at :mod:`kubestow.solver.capacity.fit.fit`. It may import everything of the solver but the other questions of capacity.
"""
