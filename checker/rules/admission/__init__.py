"""Admission plugins of the API server that refuse pods."""
