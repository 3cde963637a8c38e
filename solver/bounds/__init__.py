"""What no placement can exceed: linear relaxations with exact bounds, groups of classes on their own. Enter at
:func:`kubestow.solver.bounds.placed_bounds.placed_bounds`. It imports ``models``, :mod:`kubestow.solver.objective` and what lies below."""
