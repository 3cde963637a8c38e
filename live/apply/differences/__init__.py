"""Differences between the snapshot of a plan and the current cluster, as sentences."""
