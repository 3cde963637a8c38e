"""The compiled instance: pod classes and nodes as arrays.

Start at :mod:`kubestow.models.cluster.compile`. The types are in :mod:`kubestow.models.cluster.cluster`. It may import all of ``models``
except ``workloads``, ``disruption`` and ``edits``.
"""
