"""Synthetic snapshots from a seed, beside the example files of this folder."""
