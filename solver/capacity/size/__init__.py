"""The cheapest nodes of a catalogue that hold everything.

Enter at :mod:`kubestow.solver.capacity.size.size`. It may import everything of the solver, and :mod:`kubestow.solver.capacity.survive`.
"""
