"""Waves: steps of a plan that may be carried out at once and in any order.

Enter at ``schedule.waves``, which regroups an accepted sequence of steps; ``safety`` decides whether a step may join.
``within.within_waves`` leaves out what does not fit in as many waves as a plan may take. It may import ``problem`` and ``tiers`` of this
package, ``kubestow.solver.rules`` and ``kubestow.solver.bind_order``.
"""
