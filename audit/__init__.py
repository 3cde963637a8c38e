"""Findings about a cluster that no pending pod has to show: rules that are broken, that no node can meet, that will hurt later.

Enter at :mod:`kubestow.audit.run`; :mod:`kubestow.audit.catalogue` lists all checks and codes. It may import ``solver`` (rules and
rollouts) and ``models``.
"""
