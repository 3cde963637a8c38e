"""Minimal causes in sentences: smallest sets of facts that make it impossible to place some pods.

Enter at ``minimal_conflict.minimal_cause`` with a ``placement_question.PlacementQuestion``. The package may
import ``kubestow.solver.rules``, ``kubestow.solver.cpsat``, ``kubestow.solver.bind_order`` and
``kubestow.solver.runtime``.
"""
