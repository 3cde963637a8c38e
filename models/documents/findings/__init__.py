"""The documents Audit and Check, the selection of findings, and the sections on the descheduler and Karpenter.

Start at :mod:`kubestow.models.documents.findings.audit`. May import :mod:`kubestow.models.kube`, :mod:`kubestow.models.snapshot` and
:mod:`kubestow.models.documents`.
"""
