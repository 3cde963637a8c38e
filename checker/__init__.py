"""The independent checker: judges placements, rebalance plans and rollouts on the raw objects.

Enter at :mod:`kubestow.checker.placement`, :mod:`kubestow.checker.plan.plan` and :mod:`kubestow.checker.rollout`. It may import what reads
input and documents in ``models``, and shares no matching and no arithmetic with the solver, so that no fault can hide in both.
"""
