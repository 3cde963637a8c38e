"""Rules that running pods break now, one kind of rule per module.

Enter at :mod:`kubestow.audit.checks.violated.check`. The package may import ``kubestow.audit.view``,
``kubestow.solver.rules`` and ``models``.
"""
