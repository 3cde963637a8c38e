"""Policies of nri-plugins whose nodes cannot create a pod's containers."""
