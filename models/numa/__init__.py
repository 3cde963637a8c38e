"""Containers and NUMA zones: annotations of container affinity, node topologies, what the kubelet aligns.

Enter at :mod:`kubestow.models.numa.container_affinity` (``parse``) and :mod:`kubestow.models.numa.node_topology` (``tree``). It may import
``kubestow.models.kube``, ``snapshot`` and ``documents``.
"""
