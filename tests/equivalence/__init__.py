"""Comparison of two checkouts of the project: fixed inputs, run on both by name (``compare.py``), not by the suite."""
