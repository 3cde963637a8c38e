"""What comes back when nodes or domains fail.

Enter at :mod:`kubestow.solver.capacity.survive.survive`. It may import everything of the solver but the other questions of capacity.
"""
