"""What a plan is worth: one class for each kind of tier, with its value in an end state, its bound, and its sum over the model.

Enter at ``objective.PlanObjective``; a new kind of tier is a class here and a line in ``objective.tiers``.
It may import ``problem`` and ``target`` of this package, what they may import, and ``kubestow.solver.bounds``.
"""
