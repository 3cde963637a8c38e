"""Greedy placement by classes and gangs, and repair of a placement that leaves pods unplaced.

Enter at :func:`kubestow.solver.construction.greedy.construct` and :func:`kubestow.solver.construction.repair.repair`. The
package imports ``models``, :mod:`kubestow.solver.objective`, :mod:`kubestow.solver.bind_order` and the layers below."""
