"""Recommended requests of containers, as other tools write them: krr's JSON, VerticalPodAutoscaler objects, exports of Prometheus.

Enter at :mod:`kubestow.models.right_sizing.read`. May import :mod:`kubestow.models.kube`, :mod:`kubestow.models.snapshot` and
:mod:`kubestow.models.documents`; :mod:`kubestow.models.edits.requests` puts them into a snapshot.
"""
