"""The redundancy of the control plane: its members, the machines and zones they stand on, which failures are survived.

Enter at :mod:`audit.checks.control_plane.check`. It may import ``audit.view`` and ``models``.
"""
