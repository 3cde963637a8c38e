"""The page of a fleet: what became of the tasks of a batch, and how clusters change over time.

Enter at :mod:`kubestow.report.page.fleet.page`. It may import what the rest of the page may.
"""
