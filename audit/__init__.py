"""Findings about a cluster beyond pending pods: broken rules, rules that no node can satisfy, and risks that show
only later.

Enter at :mod:`kubestow.audit.run`; :mod:`kubestow.audit.catalogue` lists all checks and codes. The package may
import ``solver`` (rules and rollouts) and ``models``.
"""
