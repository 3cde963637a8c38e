"""Shared parts of commands: option bundles, reading of input, ^C, checking of results, output and exit codes.

Start at :mod:`kubestow.commands.common.options` for options, and at :mod:`kubestow.commands.common.searching` for the course of a search
from its options to its exit code. May import everything except ``cli`` and the commands. Only ``options``, ``exit_codes`` and
``interrupts`` are light enough for module level; commands import the others in their bodies.
"""
