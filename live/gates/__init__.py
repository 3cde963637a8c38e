"""Pods with a scheduling gate, which ``kubestow apply`` removes when it gives each pod its node from a Placement."""
