"""The CP-SAT model of a plan's end states: a relaxation of the states that accepted steps can reach.

The entry point is ``model.TargetModel``. ``rules.TargetRules`` adds the rules to it: arriving pods obey them,
and staying pods may go on breaking them. This package may import ``problem`` of ``rebalance``,
``kubestow.solver.cpsat`` and ``kubestow.solver.rules``.
"""
