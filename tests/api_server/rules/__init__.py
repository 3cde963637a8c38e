"""What pods ask for and what nodes have: quantities, selectors, room, topology."""
