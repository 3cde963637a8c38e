"""Manifests that are to be applied to a cluster: whether they fit, what they change, and what is wrong with them.

Enter at :mod:`kubestow.audit.gate.gate`. May import the rest of ``audit``, ``solver`` and ``models``; placements and rollouts are judged by
the checker where they are made.
"""
