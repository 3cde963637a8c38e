"""An order in which every pod of a placement passes its filters, and members of a gang that bind as a unit. Enter at
:func:`solver.bind_order.order.find_order`. It imports ``models`` and :mod:`solver.rules`."""
