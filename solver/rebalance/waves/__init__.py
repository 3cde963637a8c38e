"""Waves: steps of a plan that may run at once and in any order.

The entry point is ``schedule.waves``, which regroups an accepted sequence of steps; ``safety`` decides whether
a step may join a wave. ``within.within_waves`` drops steps beyond the plan's wave limit. This package may
import ``problem`` and ``tiers`` of ``rebalance``, ``kubestow.solver.rules`` and ``kubestow.solver.bind_order``.
"""
