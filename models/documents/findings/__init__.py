"""What is found in a cluster or in manifests: the documents Audit and Check, what is chosen of findings, and what others would do.

Enter at :mod:`kubestow.models.documents.findings.audit`. May import :mod:`kubestow.models.kube`, :mod:`kubestow.models.snapshot` and the
documents beside it.
"""
