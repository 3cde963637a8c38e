"""Tests of what krew is given."""
