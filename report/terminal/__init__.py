"""Results as tables for people, and progress while a search runs. Enter at :mod:`kubestow.report.terminal.placement`,
:mod:`kubestow.report.terminal.rebalance_plan`, :mod:`kubestow.report.terminal.answers` or :mod:`kubestow.report.terminal.findings.audit`.
May import :mod:`kubestow.report.documents`, ``models`` and types of ``solver``."""
