"""Rollouts of a Deployment's new revision: wave by wave, or why they come to a halt and what would help.

Enter at ``simulate.roll_out``; ``search`` finds a course, ``remedies`` the changes with which a halted one goes through.
It may import what is below ``rebalance`` in ``solver``; the entry file imports the checker.
"""
