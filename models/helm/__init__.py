"""Helm: what its annotations say of the objects of a rendered chart."""
