"""The largest number of template replicas that fit, and the constraint that prevents one more.

Enter at :mod:`kubestow.solver.capacity.fit.fit`. The package may import all of the solver except the other
capacity questions.
"""
