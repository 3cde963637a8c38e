"""The devices of nodes and the devices that pods request: pools, devices, claims, and existing allocations.

Entry points are :mod:`kubestow.models.devices.inventory` (supply) and :mod:`kubestow.models.devices.demand`
(demand). This package may import ``kubestow.models.kube``, ``kubestow.models.cel`` and
``kubestow.models.snapshot``. The checker reads devices on its own (:mod:`kubestow.checker.rules.dynamic_resources`).
"""
