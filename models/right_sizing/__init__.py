"""Recommended container requests from other tools: krr's JSON, VerticalPodAutoscaler objects, Prometheus exports.

The entry point is :mod:`kubestow.models.right_sizing.read`. This package may import
:mod:`kubestow.models.kube`, :mod:`kubestow.models.snapshot` and :mod:`kubestow.models.documents`.
:mod:`kubestow.models.edits.requests` applies the recommendations to a snapshot.
"""
