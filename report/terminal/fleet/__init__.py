"""Many tasks on a terminal: the progress of a batch, and its summary as a table.

Enter at :mod:`report.terminal.fleet.summary` (``table``) and :mod:`report.terminal.fleet.progress` (``choose``).
"""
