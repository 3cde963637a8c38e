"""Rollouts of a workload's new revision: the waves, or the reason for a halt and its remedies.

Enter at ``simulate.roll_out``. ``search`` finds a course, and ``remedies`` finds changes that let a halted
rollout complete. The package may import the layers below ``rebalance`` in ``solver``. Only
``verified_result`` imports the checker.
"""
