"""Workloads whose rules no node can meet, or that name objects that are not there.

Enter at :mod:`kubestow.audit.checks.unsatisfiable.check`. It may import ``kubestow.audit.view``, ``kubestow.solver.rules`` and ``models``.
"""
