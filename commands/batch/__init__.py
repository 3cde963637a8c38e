"""``kubestow batch``: many tasks, each a command on a snapshot, with one document for each task and a summary.

Start at :mod:`kubestow.commands.batch.command`. The package may import the same as commands.
"""
