"""Workloads whose rules no node can satisfy, or that refer to missing objects.

Enter at :mod:`kubestow.audit.checks.unsatisfiable.check`. The package may import ``kubestow.audit.view``,
``kubestow.solver.rules`` and ``models``.
"""
