"""Checks of required anti-affinity: closed domains, who may use it, and its opportunity cost.

One kind of finding a module. See docs/audit.md, KS301 to KS306.
"""
