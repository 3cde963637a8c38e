"""Workloads whose rules no node can meet, or that name objects that are not there.

Enter at :mod:`audit.checks.unsatisfiable.check`. It may import ``audit.view``, ``solver.rules`` and ``models``.
"""
