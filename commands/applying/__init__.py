"""The work of ``kubestow apply``: review of the document, the run, its rounds, and pods behind scheduling gates.

Start at :mod:`kubestow.commands.applying.reviewed`. May import everything except the commands themselves.
"""
