"""CP-SAT over everything or over neighbourhoods, and annealing. Enter at :class:`kubestow.solver.search.exact.Exact` and
:class:`kubestow.solver.search.preference_search.PreferenceSearch`. It imports ``models``, :mod:`kubestow.solver.bounds`,
:mod:`kubestow.solver.construction` and what lies below."""
