"""Positions of fields in their files: lines and columns of YAML and JSON, and template files of rendered charts.

The entry point is :mod:`kubestow.models.positions.find`. This package may import :mod:`kubestow.models.kube`,
:mod:`kubestow.models.snapshot` and :mod:`kubestow.models.documents`.
"""
