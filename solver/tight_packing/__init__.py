"""Packing for clusters whose pods demand about as much as the nodes have.

The package chooses the pods that stay out, packs the others, and proves that no more can be packed. Enter at
:class:`kubestow.solver.tight_packing.tight_packing.TightPacking`."""
