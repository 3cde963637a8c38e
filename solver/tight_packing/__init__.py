"""Clusters whose pods want about as much as there is: which pods stay out, how the others are packed, and why no more of them can be.
Enter at :class:`kubestow.solver.tight_packing.tight_packing.TightPacking`."""
