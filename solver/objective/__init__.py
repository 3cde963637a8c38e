"""Preferences and the tie-break: points, gains, linear expressions, NUMA zones, reports. Enter at
:class:`solver.objective.preferences.Objective` and :func:`solver.objective.tie_break.choose`. It imports ``models``, :mod:`solver.rules`
and what lies below."""
