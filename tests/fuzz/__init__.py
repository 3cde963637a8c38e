"""Spoiled input of every kind for every command; :mod:`tests.fuzz.run` repeats a case from its number."""
