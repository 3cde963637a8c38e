"""Containers and NUMA zones: annotations of container affinity, node topologies, and alignment by the kubelet.

Entry points are :mod:`kubestow.models.numa.container_affinity` (``parse``) and
:mod:`kubestow.models.numa.node_topology` (``tree``). This package may import ``kubestow.models.kube``,
``snapshot`` and ``documents``.
"""
