"""Spoiled manifests and clusters for the command ``check``."""
