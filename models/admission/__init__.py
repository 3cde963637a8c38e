"""Admission plugins of the API server that change new pods: annotations of namespaces.

It may import ``models.kube`` and ``models.snapshot``.
"""
