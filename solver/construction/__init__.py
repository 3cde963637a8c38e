"""Greedy placement by classes and gangs, and the repair of what was left. Enter at :func:`solver.construction.greedy.construct` and
:func:`solver.construction.repair.repair`. It imports ``models``, :mod:`solver.objective`, :mod:`solver.bind_order` and what lies below."""
