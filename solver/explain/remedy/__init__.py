"""Remedies: the cheapest changes after which pods can be placed, each proved on the changed objects.

Enter at ``search.find_remedies``; ``apply.applied`` applies a remedy to a snapshot. The package may import
``kubestow.solver.explain.conflict`` and everything that package may import.
"""
