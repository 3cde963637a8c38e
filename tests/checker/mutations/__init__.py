"""Documents that were changed so that something in them is false; see :mod:`tests.checker.mutations.test_mutations`."""
