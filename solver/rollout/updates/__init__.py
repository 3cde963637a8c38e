"""Updates of StatefulSets and DaemonSets, whose pods are replaced in place.

Enter at :mod:`kubestow.solver.rollout.updates.simulate`.
"""
