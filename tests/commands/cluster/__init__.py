"""Tests of commands that capture a cluster in place of reading a snapshot."""
