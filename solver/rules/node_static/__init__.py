"""Scheduler plugins and admission plugins whose verdict depends only on pod and node."""
