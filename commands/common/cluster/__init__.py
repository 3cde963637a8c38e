"""Capturing a cluster instead of reading a snapshot: the options, and the capture before the command runs.

Start at :func:`kubestow.commands.common.cluster.choice.snapshots` for the options, at
:func:`kubestow.commands.common.cluster.capturing.read` for the snapshot.
"""
