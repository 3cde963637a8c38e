"""Rebalancing: which pods to move where, why, and in which order, such that nothing breaks on the way."""
