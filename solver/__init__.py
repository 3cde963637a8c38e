"""Solver: finds, bounds and explains placements, rollouts and plans for running pods.

Enter at :func:`kubestow.solver.solve.place`, :func:`kubestow.solver.rollout.simulate.roll_out`,
:func:`kubestow.solver.rebalance.rebalance.rebalance` and the modules of :mod:`kubestow.solver.explain`. The package
imports ``models``; only the three entry modules import ``checker``, which judges their results."""

from kubestow.solver.cpsat import pandas_stand_in

pandas_stand_in.install()
