"""The values of a document's tiers, recomputed: preferences, container affinity, NUMA zones and the tie-break.

Enter at :mod:`kubestow.checker.objective.tiers`. It may import ``kubestow.checker.rules``.
"""
