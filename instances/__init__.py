"""Example files, and the generator of synthetic snapshots in :mod:`kubestow.instances.generate`.

README.md describes the files. Imports no other part of the project.
"""
