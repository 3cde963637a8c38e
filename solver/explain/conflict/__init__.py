"""Minimal causes: a smallest set of facts that makes it impossible to place some pods, in sentences.

Enter at ``minimal_conflict.minimal_cause`` with a ``placement_question.PlacementQuestion``.
It may import ``kubestow.solver.rules``, ``kubestow.solver.cpsat``, ``kubestow.solver.bind_order`` and ``kubestow.solver.runtime``.
"""
