"""What carrying a document out has to know of pods: which of them only the scheduler can bind, and which nodes those of a template get."""
