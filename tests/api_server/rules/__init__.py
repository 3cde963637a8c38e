"""Rules of the simulated cluster: quantities, selectors, capacity, topology."""
