"""The waves of an upgrade, replayed on one state or each on its own snapshot.

Enter at :mod:`kubestow.checker.capacity.waves.running_state`, or
:mod:`kubestow.checker.capacity.waves.separate_snapshots`. It may import everything of the checker below
:mod:`kubestow.checker.capacity`.
"""
