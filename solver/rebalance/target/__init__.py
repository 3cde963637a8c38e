"""The CP-SAT model of a plan's end states: a relaxation of what accepted steps can lead to.

Enter at ``model.TargetModel``, to which ``rules.TargetRules`` adds every rule as "what arrives obeys, what stays may go on breaking".
It may import ``problem`` of this package, ``kubestow.solver.cpsat`` and ``kubestow.solver.rules``.
"""
