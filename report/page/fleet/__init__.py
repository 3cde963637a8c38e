"""The page of a fleet: results of the tasks of a batch, and changes of clusters over time.

Enter at :mod:`kubestow.report.page.fleet.page`. The package may import what the rest of the page may.
"""
