"""Scheduler plugins whose verdict depends only on pod and node."""
