"""No two pods of a node share a host port."""
