"""Dynamic resource allocation once more, from the raw objects: which pools a node sees, what a pod asks for, and the allocator's search.

Enter at :mod:`kubestow.checker.devices.start`. It shares the types of resource.k8s.io, feature gates and CEL with the rest, and nothing
else.
"""
