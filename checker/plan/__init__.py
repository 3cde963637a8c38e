"""Rebalance plans, replayed wave by wave: movable pods, safety of waves in any order, and the plan's objective.

Enter at :mod:`kubestow.checker.plan.plan`. It may import everything of ``checker`` but ``kubestow.checker.rollout``.
"""
