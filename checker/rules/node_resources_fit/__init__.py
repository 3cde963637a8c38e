"""Requests fit in what is allocatable."""
