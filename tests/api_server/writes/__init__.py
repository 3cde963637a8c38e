"""What a request does to an object: patches, rules of updates, deletion, Bindings, Evictions."""
