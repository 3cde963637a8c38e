"""Tests of names on the command line."""
