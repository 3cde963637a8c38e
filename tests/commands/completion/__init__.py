"""Tests of shell completion."""
