"""CP-SAT over everything or over neighbourhoods, and annealing. Enter at :class:`solver.search.exact.Exact` and
:class:`solver.search.preference_search.PreferenceSearch`. It imports ``models``, :mod:`solver.bounds`, :mod:`solver.construction` and what
lies below."""
