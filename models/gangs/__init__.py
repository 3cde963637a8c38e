"""Gangs, pods that are placed whole or not at all: the labels, annotations and objects that declare them.

The entry point is :mod:`kubestow.models.gangs.gangs` (``find``). This package may import
``kubestow.models.kube`` and ``kubestow.models.snapshot``.
"""
