"""The CP-SAT model that rules add their constraints to, and one run of CP-SAT. Enter at :class:`solver.cpsat.model.PlacementModel` and
:class:`solver.cpsat.run.CpSat`. It imports ``models``, :mod:`solver.numa` and :mod:`solver.runtime`."""
