"""Shell completion: ``kubestow completion``, and the candidates at each TAB.

Start at :func:`kubestow.commands.completion.answer.answer`. Nothing here prints errors, because the shell would show them in the middle of
the line.
"""
