"""Checks of required anti-affinity: closed domains, permitted users, and opportunity cost.

One kind of finding per module. See docs/audit.md, KS301 to KS306.
"""
