"""The CP-SAT model that rules add their constraints to, and one run of CP-SAT. Enter at :class:`kubestow.solver.cpsat.model.PlacementModel`
and :class:`kubestow.solver.cpsat.run.CpSat`. It imports ``models``, :mod:`kubestow.solver.numa` and :mod:`kubestow.solver.runtime`."""
