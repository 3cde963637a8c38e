"""The commands of kubestow, one a module."""
