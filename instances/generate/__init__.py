"""Synthetic snapshots from a seed: the same parameters give the same bytes on every platform.

Enter at :func:`kubestow.instances.generate.generator.generate`, or ``worn.worn`` and ``planted.planted`` for clusters after some time of
life and for those with a tight complete placement. Imports nothing of the project, so that neither it nor the solver can hide a fault of
the other.
"""
