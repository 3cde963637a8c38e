"""Devices for the claims of pods.

The package holds kube-scheduler's search for one pod on one node, the books of a growing placement, and the
ways in which devices serve claims. Entry points:

* :class:`kubestow.solver.devices.state.DeviceState`: the allocation, and whether one more pod can be
  served;
* :func:`kubestow.solver.devices.allocator.allocate`: the search itself;
* :func:`kubestow.solver.devices.result.devices`: the devices that pods get in a bind order;
* :mod:`kubestow.solver.devices.device_groups` and :mod:`kubestow.solver.devices.claim_modes`, which
  the encoding of DynamicResources turns into rows;
* :func:`kubestow.solver.devices.together.together`: several pods on one node;
* :func:`kubestow.solver.devices.supply.supply`: bounds.

It imports only ``models``.
"""
