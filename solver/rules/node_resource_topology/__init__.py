"""The scheduler plugin NodeResourceTopologyMatch and NUMA zones of containers."""
