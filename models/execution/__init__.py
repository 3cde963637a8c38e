"""Pod data for carrying out documents: the pods that only the scheduler can bind, and the nodes of a template's pods."""
