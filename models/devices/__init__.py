"""What nodes have in devices and what pods ask of them: pools, devices, claims, and what is allocated already.

Enter at :mod:`kubestow.models.devices.inventory` (what there is) and :mod:`kubestow.models.devices.demand` (what a pod asks for). It may
import ``kubestow.models.kube``, ``kubestow.models.cel`` and ``kubestow.models.snapshot``. The checker reads devices on its own
(:mod:`kubestow.checker.devices`).
"""
