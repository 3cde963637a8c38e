"""Findings in a terminal: tables of the audit and of a check, and of what the descheduler and Karpenter would do.

Each module draws one document. May import :mod:`kubestow.models` and the modules of :mod:`kubestow.report.terminal` beside it.
"""
