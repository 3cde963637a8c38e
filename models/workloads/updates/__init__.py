"""What an update of a StatefulSet or a DaemonSet starts from.

Enter at :mod:`kubestow.models.workloads.updates.update_input`.
"""
