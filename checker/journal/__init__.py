"""What a run of ``kubestow apply`` asked of a cluster, from its journal: whether the document says so, and what came of it.

Enter at :mod:`kubestow.checker.journal.judge`. It may import everything of ``checker`` but ``kubestow.checker.rollout``, and nothing of
``live``.
"""
