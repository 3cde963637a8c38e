"""Remedies: the cheapest changes after which pods can be placed, each proved on the changed objects.

Enter at ``search.find_remedies``; ``apply.applied`` carries a remedy out on a snapshot.
It may import ``kubestow.solver.explain.conflict`` and what that may import.
"""
