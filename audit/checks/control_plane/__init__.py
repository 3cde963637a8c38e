"""The redundancy of the control plane: its members, the machines and zones they stand on, which failures are survived.

Enter at :mod:`kubestow.audit.checks.control_plane.check`. It may import ``kubestow.audit.view`` and ``models``.
"""
