"""Findings for terminals: tables of the audit and the check, and of the descheduler and Karpenter simulations.

One module per document. The package may import :mod:`kubestow.models` and its sibling modules in
:mod:`kubestow.report.terminal`.
"""
