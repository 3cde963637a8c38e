"""NUMA zones of the pods of one node: as the kubelet assigns them, and as CP-SAT may choose them. Enter at
:class:`solver.numa.topology_manager.Kubelet` and :class:`solver.numa.zone_patterns.NodeZones`. It imports ``models`` only."""
