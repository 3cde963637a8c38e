"""Why pods have no node, and what would give them one.

Enter at ``per_node.explain`` for the verdicts of each node, and at ``unplaced.explain_left`` for minimal causes with remedies.
It may import what is below it in ``solver`` (search, bounds, construction, objective, bind_order, rules, cpsat, runtime), not the checker.
"""
