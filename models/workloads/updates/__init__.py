"""The start of an update of a StatefulSet or a DaemonSet.

The entry point is :mod:`kubestow.models.workloads.updates.update_input`.
"""
