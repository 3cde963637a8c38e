"""Plans that move running pods: from a snapshot and goals to a verified RebalancePlan.

The entry point is ``rebalance.rebalance``. The entry files here may import every package of this folder and the
checker. The packages import each other in the order problem, target, tiers, waves, sequencing, goals, and
otherwise only lower layers of ``solver``.
"""
