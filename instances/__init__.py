"""Example files, and in :mod:`kubestow.instances.generate` what draws synthetic snapshots from a seed.

Enter at README.md for the files. Imports nothing of the project.
"""
