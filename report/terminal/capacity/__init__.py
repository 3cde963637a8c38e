"""Tables of documents about capacity.

A module a document.
"""
