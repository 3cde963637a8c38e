"""An order in which every pod of a placement passes its filters, and members of a gang that bind as a unit. Enter at
:func:`kubestow.solver.bind_order.order.find_order`. It imports ``models`` and :mod:`kubestow.solver.rules`."""
