"""Reports on documents about capacity, one module per document."""
