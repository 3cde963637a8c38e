"""Whether two checkouts of the project answer alike: fixed inputs, run on both by name (``compare.py``), not by the suite."""
