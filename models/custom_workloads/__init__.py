"""Workloads of kinds that Kubernetes lacks, read by a table: [workload-kinds.md](docs/workload-kinds.md).

The table is data (``kinds/*.yaml``, in the form of :mod:`kubestow.models.custom_workloads.table`). The entry point is
:mod:`kubestow.models.custom_workloads.pod_sets`, which turns an object into its pod sets. This package may import
``kubestow.models.kube``.
"""
