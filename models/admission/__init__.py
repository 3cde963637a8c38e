"""The API server's changes to new pods, and its warnings: annotations of namespaces, replaced labels.

This package may import ``kubestow.models.kube`` and ``kubestow.models.snapshot``.
"""
