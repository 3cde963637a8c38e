"""Objective of a placement: preferences, evenness of domains and the tie-break, with points, gains, linear expressions and
reports.

Enter at :class:`kubestow.solver.objective.preferences.Objective` and :func:`kubestow.solver.objective.tie_break.choose`.
The package imports ``models``, :mod:`kubestow.solver.rules` and the layers below."""
