"""Waves: steps of a plan that may be carried out at once and in any order.

Enter at ``schedule.waves``, which regroups an accepted sequence of steps; ``safety`` decides whether a step may join.
It may import ``problem`` of this package and ``solver.rules``.
"""
