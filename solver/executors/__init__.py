"""Executors for independent solves, like those of :mod:`concurrent.futures`: processes on this machine, Dask workers on
others.

Enter at :mod:`kubestow.solver.executors.run` (``run``) with tasks, at :mod:`kubestow.solver.executors.pool` (``pool_of``,
``PoolQuestion``) with the parts of one question, and at :mod:`kubestow.solver.executors.second_process` with work that runs
alongside a search. The package imports nothing else of the project. Dask is imported only on demand."""
