"""``kubestow batch``: many tasks, each a command on a snapshot, with one document a task and a summary.

Enter at :mod:`kubestow.commands.batch.command`. It may import what the commands may.
"""
