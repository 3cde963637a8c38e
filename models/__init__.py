"""The input as objects, what it means, and what is printed of it: Kubernetes' API, snapshots, workloads, the compiled instance.

Enter at :mod:`kubestow.models.snapshot.snapshot` (reading) and :mod:`kubestow.models.cluster.compile` (what is solved). It imports no other
package of the project.
"""
