"""What every search shares: options, the deadline, progress and the context that carries them. Enter at
:class:`kubestow.solver.runtime.run_context.RunContext`. It imports nothing of the solver, and of ``models`` the documents only."""
