"""Device selectors in CEL, evaluated by a library extended with Kubernetes' own functions. Enter at
:mod:`kubestow.models.cel.selectors`.

It may import ``kubestow.models.kube``. Expressions belong to reading input, so the checker uses this package too.
"""
