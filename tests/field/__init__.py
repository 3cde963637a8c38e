"""Inputs rebuilt by hand after public reports, and the expected output of each."""
