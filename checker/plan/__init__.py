"""Rebalance plans, replayed wave by wave: what may move, whether a wave is safe in any order, what the plan is worth.

Enter at :mod:`kubestow.checker.plan.plan`. It may import everything of ``checker`` but ``kubestow.checker.rollout``.
"""
