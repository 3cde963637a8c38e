"""Shared parts of the work of commands: reading of input, the course of a search, checking of results, and output.

Start at :mod:`kubestow.commands.running.searching` for the course of a search from its options to its exit code. These modules are slow to
import, so only the modules ``run`` of commands import them. May import everything except ``cli`` and the commands.
"""
