"""What-if changes of a snapshot: replicas, nodes that come or go, pods bound by hand.

Enter at :mod:`kubestow.models.edits.edits` (``apply``). It may import everything of ``models`` but ``disruption``.
"""
