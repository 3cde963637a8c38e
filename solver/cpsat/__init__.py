"""CP-SAT: the model to which rules add their constraints, and single solves.

Enter at :class:`kubestow.solver.cpsat.model.PlacementModel` and :class:`kubestow.solver.cpsat.run.CpSat`. The package
imports ``models``, :mod:`kubestow.solver.numa` and :mod:`kubestow.solver.runtime`."""
