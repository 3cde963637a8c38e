"""Devices of dynamic resource allocation: what tells them apart, and in how many ways they serve claims.

Enter at :mod:`solver.devices.device_kinds`; :mod:`solver.rules.dynamic_resources_encoding` makes rows of it. It imports
:mod:`models.devices`.
"""
