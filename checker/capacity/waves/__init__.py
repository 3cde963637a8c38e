"""The waves of an upgrade, replayed one after the other on one state, or each on a cluster made anew.

Enter at :mod:`kubestow.checker.capacity.waves.passage`, or :mod:`kubestow.checker.capacity.waves.anew`. It may import everything of the
checker below :mod:`kubestow.checker.capacity`.
"""
