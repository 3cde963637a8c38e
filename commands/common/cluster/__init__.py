"""A cluster in place of a snapshot: the options that name it, and one capture before the command goes on.

Enter at :func:`kubestow.commands.common.cluster.choice.snapshots` for the options, at
:func:`kubestow.commands.common.cluster.capturing.read` for the snapshot.
"""
