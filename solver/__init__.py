"""How placements, rollouts and plans for running pods are found, bounded and explained. Enter at :func:`kubestow.solver.solve.place`,
:func:`kubestow.solver.rollout.simulate.roll_out`, :func:`kubestow.solver.rebalance.rebalance.rebalance` and the modules of
:mod:`kubestow.solver.explain`. It imports ``models``; only the three entry modules import ``checker``, to have their result judged."""
