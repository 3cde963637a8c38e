"""Validation as in an API server. ``kinds.problems`` checks an object of any kind; the other modules check its parts."""
