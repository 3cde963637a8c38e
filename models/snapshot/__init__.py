"""Reads a cluster from files and sorts its pods into fixed and pending ones.

Enter at :mod:`kubestow.models.snapshot.snapshot` (``load``) and :mod:`kubestow.models.snapshot.scope` (``select``). It may import
``kubestow.models.kube``.
"""
