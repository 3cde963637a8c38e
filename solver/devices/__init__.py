"""Devices for the claims of pods: kube-scheduler's search for one pod on one node, the books of a placement that grows, and in how many
ways devices serve claims.

Enter at :class:`kubestow.solver.devices.state.DeviceState` (what is allocated, and whether one more pod can be served), at
:func:`kubestow.solver.devices.allocator.allocate` (the search itself), at :func:`kubestow.solver.devices.result.devices` (what the pods of
a bind order get), at :mod:`kubestow.solver.devices.device_groups` and :mod:`kubestow.solver.devices.claim_modes` (of which
:mod:`kubestow.solver.rules.encodings.dynamic_resources` makes rows), at :func:`kubestow.solver.devices.together.together` (several pods of
a node) and at :func:`kubestow.solver.devices.supply.supply` (bounds). It imports ``models`` alone.
"""
