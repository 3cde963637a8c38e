"""Recommended requests of containers, as other tools write them: krr's JSON, VerticalPodAutoscaler objects, exports of Prometheus.

Enter at :mod:`models.right_sizing.read`. May import :mod:`models.kube`, :mod:`models.snapshot` and :mod:`models.documents`;
:mod:`models.edits.requests` puts them into a snapshot.
"""
