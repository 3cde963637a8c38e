"""Policies of nri-plugins, BalloonsPolicy and TopologyAwarePolicy: nodes that cannot create a pod's containers."""
