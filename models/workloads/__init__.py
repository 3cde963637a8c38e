"""The pods that controllers make: how many a workload still lacks, from which template, under which names and with which claims.

Enter at :mod:`kubestow.models.workloads.expand`, for rollouts at :mod:`kubestow.models.workloads.rollout_input`. It may import
``kubestow.models.kube``, ``snapshot``, ``documents`` and ``gangs``, and not the compiled instance, as the checker reads workloads too.
"""
