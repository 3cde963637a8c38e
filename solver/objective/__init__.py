"""Preferences and the tie-break: points, gains, linear expressions, NUMA zones, reports. Enter at
:class:`kubestow.solver.objective.preferences.Objective` and :func:`kubestow.solver.objective.tie_break.choose`. It imports ``models``,
:mod:`kubestow.solver.rules` and what lies below."""
