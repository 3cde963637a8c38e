"""What is found in a cluster or in manifests: the documents Audit and Check, what is chosen of findings, and what others would do.

Enter at :mod:`models.documents.findings.audit`. May import :mod:`models.kube`, :mod:`models.snapshot` and the documents beside it.
"""
