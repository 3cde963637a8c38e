"""Reads a cluster from files and sorts its pods into fixed and pending ones.

Enter at :mod:`models.snapshot.snapshot` (``load``) and :mod:`models.snapshot.scope` (``select``). It may import ``models.kube``.
"""
