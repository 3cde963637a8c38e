"""Greedy placement by classes and gangs, and the repair of what was left. Enter at :func:`kubestow.solver.construction.greedy.construct`
and :func:`kubestow.solver.construction.repair.repair`. It imports ``models``, :mod:`kubestow.solver.objective`,
:mod:`kubestow.solver.bind_order` and what lies below."""
