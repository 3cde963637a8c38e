"""Write requests: patches, update rules, deletion, Bindings and Evictions."""
