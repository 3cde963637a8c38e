"""Rules that running pods break now, one kind of rule a module.

Enter at :mod:`audit.checks.violated.check`. It may import ``audit.view``, ``solver.rules`` and ``models``.
"""
