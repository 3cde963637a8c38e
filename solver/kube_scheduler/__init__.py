"""The points and choices of kube-scheduler, in its own arithmetic.

kube-scheduler normalises points in floating point where it says so here; the same operations in the same order give the same points.
No rule and no proof depends on them.
"""
