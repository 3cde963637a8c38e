"""What the API server does to new pods or warns about: annotations of namespaces, labels that were replaced.

It may import ``kubestow.models.kube`` and ``kubestow.models.snapshot``.
"""
