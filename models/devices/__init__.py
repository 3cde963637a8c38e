"""What nodes have in devices and what pods ask of them: pools, devices, claims, and what is allocated already.

Enter at :mod:`models.devices.inventory` (what there is) and :mod:`models.devices.demand` (what a pod asks for). It may import
``models.kube``, ``models.cel`` and ``models.snapshot``. The checker reads devices on its own (:mod:`checker.devices`).
"""
