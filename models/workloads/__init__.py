"""The pods that controllers make: the number a workload lacks, their template, names and claims.

Entry points are :mod:`kubestow.models.workloads.expand` and, for rollouts,
:mod:`kubestow.models.workloads.rollout_input`. This package may import ``kubestow.models.kube``, ``snapshot``,
``documents`` and ``gangs``. It may not import the compiled instance, because the checker reads workloads, too.
"""
