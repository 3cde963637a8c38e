"""Reading a cluster from files, and the distinction of fixed and pending pods.

Entry points are :mod:`kubestow.models.snapshot.snapshot` (``load``) and :mod:`kubestow.models.snapshot.scope`
(``select``). This package may import ``kubestow.models.kube``.
"""
