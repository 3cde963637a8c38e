"""Gangs, pods that are placed whole or not at all: which labels, annotations and objects declare them.

Enter at :mod:`kubestow.models.gangs.gangs` (``find``). It may import ``kubestow.models.kube`` and ``kubestow.models.snapshot``.
"""
