"""The cheapest nodes of a catalogue that hold all pods.

Enter at :mod:`kubestow.solver.capacity.size.size`. The package may import all of the solver, including
:mod:`kubestow.solver.capacity.survive`.
"""
