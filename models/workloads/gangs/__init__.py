"""Gangs of workloads: the marks that declare them, and the gangs that run."""
