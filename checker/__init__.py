"""The independent checker of placements, rebalance plans and rollouts. It works on the raw objects.

Enter at :mod:`kubestow.checker.placement`, :mod:`kubestow.checker.plan.plan` and :mod:`kubestow.checker.rollout`.
The checker may import the parts of ``models`` that read input and documents. It shares no matching and no
arithmetic with the solver, so that one fault cannot hide in both.
"""
