"""What several commands share: bundles of options, reading of input, ^C, judging of results, output and exit codes.

Enter at :mod:`kubestow.commands.common.options` for what a command is given, and at :mod:`kubestow.commands.common.searching` for the way
of a search from its options to its exit code. May import everything but ``cli`` and the commands; what is heavy (all but ``options``,
``exit_codes`` and ``interrupts``) is for the bodies of commands.
"""
