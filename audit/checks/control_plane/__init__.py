"""Redundancy of the control plane: its members, their machines and zones, and the failures that it survives.

Enter at :mod:`kubestow.audit.checks.control_plane.check`. The package may import ``kubestow.audit.view`` and
``models``.
"""
