"""Gangs, pods that are placed whole or not at all: which labels, annotations and objects declare them.

Enter at :mod:`models.gangs.gangs` (``find``). It may import ``models.kube`` and ``models.snapshot``.
"""
