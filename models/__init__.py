"""The data model: Kubernetes objects, snapshots, workloads, the compiled instance, and the documents that kubestow prints.

Start at :mod:`kubestow.models.snapshot.snapshot` (reading input) and :mod:`kubestow.models.cluster.compile` (the optimisation instance).
It imports no other package of the project.
"""
