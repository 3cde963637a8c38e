"""The checker of journals: the requests of a ``kubestow apply`` run compared with its document, and their outcome.

Enter at :mod:`kubestow.checker.journal.judge`. It may import everything of ``checker`` but
``kubestow.checker.rollout``, and nothing from ``live``.
"""
