"""The headroom of CapacityBuffers: now, with new replicas, after failures, and during node upgrades."""
