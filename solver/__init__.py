"""How placements, rollouts and plans for running pods are found, bounded and explained. Enter at :func:`solver.solve.place`,
:func:`solver.rollout.simulate.roll_out`, :func:`solver.rebalance.rebalance.rebalance` and the modules of :mod:`solver.explain`. It imports
``models``; only the three entry modules import ``checker``, to have their result judged."""
