"""Inputs rebuilt by hand after public reports, and what is said of each."""
