"""The documents that kubestow prints and reads, as msgspec Structs with a description of every field.

Start at the module of the kind: placement, rebalance_plan, audit, answers or policy. May import ``kubestow.models.kube`` and
``kubestow.models.snapshot``.
"""
