"""NUMA zones of the pods of one node, as the kubelet assigns them and as CP-SAT may choose them.

Enter at :class:`kubestow.solver.numa.topology_manager.Kubelet` and :class:`kubestow.solver.numa.zone_patterns.NodeZones`.
The package imports only ``models``."""
