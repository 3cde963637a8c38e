"""Gangs: all pods of a group are placed, or at least its minimum, or none."""
