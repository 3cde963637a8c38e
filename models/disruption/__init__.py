"""What moving running pods costs and who forbids it: PodDisruptionBudgets, pods that must stay, nodes that are selected for draining.

Enter at :mod:`kubestow.models.disruption.evictable` and :mod:`kubestow.models.disruption.pod_disruption_budgets`. It may import everything
of ``models`` but ``edits``.
"""
