"""The values of a document's tiers, computed again: preferences, container affinity and NUMA zones, tie-break.

Enter at :mod:`kubestow.checker.objective.tiers`. It may import ``kubestow.checker.rules``.
"""
