"""What no placement can exceed: linear relaxations with exact bounds, groups of classes on their own. Enter at
:func:`solver.bounds.placed_bounds.placed_bounds`. It imports ``models``, :mod:`solver.objective` and what lies below."""
