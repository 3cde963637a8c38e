"""Helm: the meaning of its annotations on the objects of a rendered chart."""
