"""State that all searches of a run share: options, deadline, progress, and the context that carries them.

Enter at :class:`kubestow.solver.runtime.run_context.RunContext`. The package imports no other solver package, and only
documents of ``models``."""
