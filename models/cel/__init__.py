"""Selectors of devices in CEL, evaluated by a library with Kubernetes' own functions added. Enter at :mod:`kubestow.models.cel.selectors`.

It may import ``kubestow.models.kube``. An expression is part of reading: the checker asks this package, too.
"""
