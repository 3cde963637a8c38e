"""The worst end of a rolling update: the largest skew of a spread constraint that counts old revisions.

Enter at ``ends.WorstEnds``. ``problem`` reads a compiled cluster, ``courses`` searches all courses of a rollout, and
``bound`` proves an upper bound. docs/rollouts.md explains the method.
"""
