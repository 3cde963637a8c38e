"""Tables of results for terminals, and progress displays for running searches.

Enter at :mod:`kubestow.report.terminal.placement`, :mod:`kubestow.report.terminal.rebalance_plan`,
:mod:`kubestow.report.terminal.answers` or :mod:`kubestow.report.terminal.findings.audit`. The package may import
:mod:`kubestow.report.documents`, ``models`` and types of ``solver``.
"""
