"""Where fields are in the files that hold them: lines and columns of YAML and JSON, template files of rendered charts.

Enter at :mod:`models.positions.find`. May import :mod:`models.kube`, :mod:`models.snapshot` and :mod:`models.documents`.
"""
