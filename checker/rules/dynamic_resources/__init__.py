"""Dynamic resource allocation, implemented a second time from the raw objects: pools per node, demands of pods, and
the allocator's search.

The rule is in :mod:`kubestow.checker.rules.dynamic_resources.rule`. It shares the types of resource.k8s.io, feature
gates and CEL with the rest, and nothing more.
"""
