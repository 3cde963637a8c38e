"""Upper bounds that no placement exceeds: linear relaxations with exact bounds, and groups of classes on their own.

Enter at :func:`kubestow.solver.bounds.placed_bounds.placed_bounds`. The package imports ``models``,
:mod:`kubestow.solver.objective` and the layers below."""
