"""The headroom that CapacityBuffers ask for: how many chunks, and the virtual pods that they stand for."""
