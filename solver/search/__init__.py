"""Search for better placements: CP-SAT on whole models or neighbourhoods, and annealing.

Enter at :class:`kubestow.solver.search.exact.ExactEngine` and
:class:`kubestow.solver.search.preference_search.PreferenceSearch`. The package imports ``models``,
:mod:`kubestow.solver.bounds`, :mod:`kubestow.solver.construction` and the layers below."""
