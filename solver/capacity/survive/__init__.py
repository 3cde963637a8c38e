"""The pods that return after nodes or domains fail.

Enter at :mod:`kubestow.solver.capacity.survive.survive`. The package may import all of the solver except the
other capacity questions.
"""
