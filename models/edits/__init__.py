"""What-if changes of a snapshot: replicas, added and removed nodes, manually bound pods.

The entry point is :mod:`kubestow.models.edits.edits` (``apply``). This package may import all of ``models``
except ``disruption``.
"""
