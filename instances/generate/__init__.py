"""Synthetic snapshots from a seed: the same parameters give the same bytes on every platform.

Enter at :func:`kubestow.instances.generate.generator.generate`, at ``worn.worn`` for clusters after some time of
use, or at ``planted.planted`` for clusters with a tight complete placement. Imports no other part of the project,
so that neither it nor the solver can hide a fault of the other.
"""
