"""Results as tables for people, and progress while a search runs. Enter at :mod:`report.terminal.placement`,
:mod:`report.terminal.rebalance_plan`, :mod:`report.terminal.answers` or :mod:`report.terminal.findings.audit`. May import
:mod:`report.documents`, ``models`` and types of ``solver``."""
