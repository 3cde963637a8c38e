"""Containers and NUMA zones: annotations of container affinity, node topologies, what the kubelet aligns.

Enter at :mod:`models.numa.container_affinity` (``parse``) and :mod:`models.numa.node_topology` (``tree``). It may import ``models.kube``,
``snapshot`` and ``documents``.
"""
