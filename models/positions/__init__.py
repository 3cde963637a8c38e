"""Where fields are in the files that hold them: lines and columns of YAML and JSON, template files of rendered charts.

Enter at :mod:`kubestow.models.positions.find`. May import :mod:`kubestow.models.kube`, :mod:`kubestow.models.snapshot` and
:mod:`kubestow.models.documents`.
"""
