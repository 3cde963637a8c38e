"""The headroom that CapacityBuffers request: the number of chunks, and their virtual pods."""
