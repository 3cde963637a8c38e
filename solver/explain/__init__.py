"""Explanations of why pods have no node, and remedies that would give them one.

Enter at ``per_node.explain`` for a verdict on each node, and at ``unplaced.explain_left`` for minimal causes
with remedies. The package may import the layers below it in ``solver`` (search, bounds, construction,
objective, bind_order, rules, cpsat, runtime), but not the checker.
"""
