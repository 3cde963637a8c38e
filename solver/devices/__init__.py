"""Devices for the claims of pods: kube-scheduler's search for one pod on one node, the books of a placement that grows, and in how many
ways devices serve claims.

Enter at :class:`solver.devices.state.DeviceState` (what is allocated, and whether one more pod can be served), at
:func:`solver.devices.allocator.allocate` (the search itself), at :func:`solver.devices.result.devices` (what the pods of a bind order
get), at :mod:`solver.devices.device_groups` and :mod:`solver.devices.claim_modes` (of which
:mod:`solver.rules.encodings.dynamic_resources` makes rows), at :func:`solver.devices.together.together` (several pods of a node) and
at :func:`solver.devices.supply.supply` (bounds). It imports ``models`` alone.
"""
