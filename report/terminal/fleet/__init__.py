"""Reports on many tasks: the progress of a batch, and its summary as a table.

Enter at :mod:`kubestow.report.terminal.fleet.summary` (``table``) and
:mod:`kubestow.report.terminal.fleet.progress` (``choose``).
"""
