"""Whether the chunks of CapacityBuffers fit: now, beside new replicas, after failures, and while nodes are upgraded."""
