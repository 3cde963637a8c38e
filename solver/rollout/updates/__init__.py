"""Updates of StatefulSets and DaemonSets, whose pods are replaced in place.

Enter at :mod:`solver.rollout.updates.simulate`.
"""
