"""Shell completion: ``kubestow completion``, and the answers to what the shells ask at each TAB.

Enter at :func:`kubestow.commands.completion.answer.answer`. Nothing here prints an error: a shell that completes shows it in the middle of
the line.
"""
