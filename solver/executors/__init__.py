"""Many solves that know nothing of each other, on executors as :mod:`concurrent.futures` has them: processes here, Dask workers elsewhere.

Enter at :mod:`kubestow.solver.executors.run` (``run``) with tasks, at :mod:`kubestow.solver.executors.pool` (``pool_of``, ``Question``)
with the parts of one question, at :mod:`kubestow.solver.executors.second_process` with work that goes on beside a search. It imports
nothing else of the project; Dask is imported when it is asked for.
"""
