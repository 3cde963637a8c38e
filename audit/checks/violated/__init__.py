"""Rules that running pods break now, one kind of rule a module.

Enter at :mod:`kubestow.audit.checks.violated.check`. It may import ``kubestow.audit.view``, ``kubestow.solver.rules`` and ``models``.
"""
