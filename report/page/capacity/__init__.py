"""Panels of the page about capacity, one module per document, as plain values."""
