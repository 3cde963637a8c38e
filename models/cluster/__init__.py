"""The compiled instance: pods in classes that no rule can tell apart, against nodes, as arrays.

Enter at :mod:`kubestow.models.cluster.compile`; :mod:`kubestow.models.cluster.cluster` has the types. It may import everything of
``models`` but ``workloads``, ``disruption`` and ``edits``.
"""
