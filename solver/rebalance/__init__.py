"""Plans that move running pods: from a snapshot and goals to a verified RebalancePlan.

Enter at ``rebalance.rebalance``. The entry files here may import every package of this folder and the checker; the packages import in the
order problem, target, tiers, waves, sequencing, goals, and otherwise what is below ``rebalance`` in ``solver``.
"""
