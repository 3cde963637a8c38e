"""Names of objects on the command line: as kubectl has them, those of a snapshot, and examples for missing options.

It imports no other package of :mod:`kubestow.commands`. Its modules are light at import, because declarations of commands use them.
"""
