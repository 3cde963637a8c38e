"""Checkers of the documents about capacity: Fit, Sizing, Survival and Upgrade.

Each document has a module with a ``check_…`` function. The caller applies the document's edits to the snapshots first.
"""
