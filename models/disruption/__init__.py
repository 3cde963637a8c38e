"""The cost of moving running pods, and obstacles: PodDisruptionBudgets, pods that must stay, selected nodes.

Entry points are :mod:`kubestow.models.disruption.evictable` and
:mod:`kubestow.models.disruption.pod_disruption_budgets`. This package may import all of ``models`` except
``edits``.
"""
