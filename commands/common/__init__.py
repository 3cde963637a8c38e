"""Shared parts of the declarations of commands: options, the dataclasses that carry them, help and exit codes.

Start at :mod:`kubestow.commands.common.options`. All modules are light enough for the declaration of a command, except those that they
import inside functions: ``context_namespace``, ``input_folder`` and ``option_parsing``.
"""
