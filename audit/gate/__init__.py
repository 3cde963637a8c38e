"""Checks of manifests before they are applied: whether they fit, which workloads they change, and which findings
they add.

Enter at :mod:`kubestow.audit.gate.gate`. The package may import the rest of ``audit``, ``solver`` and ``models``.
The checker validates placements and rollouts where they are created.
"""
