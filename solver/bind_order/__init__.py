"""Bind order: a sequence in which every pod of a placement passes its filters, with gang members that bind as units.

Enter at :func:`kubestow.solver.bind_order.order.find_order`. The package imports ``models`` and
:mod:`kubestow.solver.rules`."""
